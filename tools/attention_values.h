// SPDX-License-Identifier: MIT
// tools/attention_values.h — inputs of attention whose results can be judged.
//
// An element depends on seed, launch, tensor, batch, position in the sequence and head, not on the rank that has it.
//
//   kUniform   Scores spread so far that about eight keys have most of a query's weight.  Were weights alike, results
//              would be means of thousands of values, which are near zero: a bound would say nothing of them.
//   kExact     A key has a code: `bits` of its elements are ±1 times a power of two, the others are zero.  A query has
//              the code of one key of its sequence: the one at its own position, the next one, the last one in the
//              window or the first one outside, or any.  Scores that differ do so by 128 at least, where exp is zero in
//              fp32.  So the keys that have most bits in common with the query have equal weights and all others none:
//              o is a mean of few rows of whole numbers, and shows every one that is missing or too many.
//
// The kinds take turns.  Sinks: in kUniform about as heavy as all keys together; in kExact those of even heads weigh
// nothing, those of odd heads everything.
//
// The backward pass has two inputs more, which are data like all others (attention_backward_judge.h): o, as values are,
// and its gradients.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/macros.h"
#include "base/math.h"
#include "data.h"
#include "mkernel/ring_attention.h"

namespace mk::tools {

// The attention of a whole world.
struct AttentionSize {
  int64_t batch = 1;
  int64_t seq = 1;  // of all ranks together
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t dim = 1;
  float scale = 1;
  AttentionMask mask = {};
  std::vector<int32_t> cu_seqlens = {};  // of packed sequences, whose batch is 1

  // Most keys that a query sees.
  int64_t most_seen() const { return std::min(seq, mask.window.value_or(seq)); }
};

inline float scale_or_default(std::optional<float> scale, int64_t dim) {
  return scale.value_or(static_cast<float>(1 / std::sqrt(static_cast<double>(dim))));
}

enum class AttentionTensor : uint64_t { kQueries, kKeys, kValues, kSinks, kOutputs, kGradients };

struct AttentionValues {
  DataKind kind = DataKind::kUniform;
  uint64_t seed = 0;
  uint64_t launch = 0;
  int64_t seq = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t dim = 1;
  int64_t window = 1;    // the sequence, if the mask has none
  float query_size = 1;  // powers of two
  float key_size = 1;
  int bits = 1;             // kExact: of a code
  int64_t stride = 1;       // between elements of a code
  double sink = 0;          // kUniform: sinks lie around it; kExact: they lie at ± it
  double best_score = 0;    // kExact: of a query and a key of its code, times the scale
  float gradient_size = 1;  // a power of two, so that no gradient is too large for its type

  MK_HD constexpr int64_t kv_head(int64_t head) const { return head / (heads / kv_heads); }
  double largest_value() const { return kind == DataKind::kExact ? kWholes : 1; }
  // The largest score there can be, without the scale; and of how many products it is a sum.
  double largest_score() const { return static_cast<double>(products()) * query_size * key_size; }
  int64_t products() const { return kind == DataKind::kExact ? bits : dim; }

  static constexpr int kWholes = 4;  // values of kExact are whole numbers from -kWholes to kWholes
  // Elements of a row of gradients of kExact that are not zero, at most: with kWholes, sums of their products with
  // differences of values and outputs are at most 256 in size, which every type holds.
  static constexpr int64_t kMostGradients = 32;
};

// Scales with which scores can be spread as they should be, in any type.
constexpr float kLeastScale = 1e-6f;
constexpr float kMostScale = 1e6f;
// Longer sums of weights are judged with exact data only: what rounding may do to others grows with their length.
constexpr int64_t kLongestUniformAttention = int64_t{1} << 16;

inline AttentionValues attention_values_for(const AttentionSize& size, uint64_t seed, uint64_t launch) {
  constexpr double kKeysThatCount = 8;
  constexpr double kApart = 128;  // exp(-104) is zero in fp32
  constexpr int kMostBits = 12;
  AttentionValues values{.seed = seed, .launch = launch, .seq = size.seq, .heads = size.heads};
  values.kv_heads = size.kv_heads;
  values.dim = size.dim;
  values.window = size.mask.window.value_or(size.seq);
  const bool is_uniform = launch % 2 == 0 && size.most_seen() <= kLongestUniformAttention;
  values.kind = is_uniform ? DataKind::kUniform : DataKind::kExact;
  const auto seen = static_cast<double>(size.most_seen());
  const double ratio = std::max(seen / kKeysThatCount, 1.0);
  const double spread = std::sqrt(std::max(std::log(ratio), 1.0));  // exp of normal numbers: this leaves so many
  const double scale = size.scale;
  const int most_bits = static_cast<int>(std::min<int64_t>(kMostBits, size.dim));
  values.bits = std::clamp(static_cast<int>(std::log2(ratio)), 1, most_bits);
  values.stride = size.dim / values.bits;
  // A product of uniform numbers of (-1, 1) has a deviation of a third; a bit that differs costs two products.
  const double product =
      is_uniform ? 3 * spread / (scale * std::sqrt(static_cast<double>(size.dim))) : kApart / 2 / scale;
  const int exponent = static_cast<int>(is_uniform ? std::lround(std::log2(product)) : std::ceil(std::log2(product)));
  values.query_size = std::ldexp(1.0f, exponent / 2);
  values.key_size = std::ldexp(1.0f, exponent - exponent / 2);
  values.best_score = values.largest_score() * scale;
  values.sink = is_uniform ? std::log(seen) + spread * spread / 2 : 2 * (values.best_score + kApart);
  const double grows = std::log2(scale * std::max(values.query_size, values.key_size));
  values.gradient_size = std::ldexp(1.0f, -std::max(0, static_cast<int>(std::ceil(grows))));
  return values;
}

MK_HD constexpr uint64_t attention_key(const AttentionValues& values, uint64_t tensor, int64_t batch, int64_t position,
                                       int64_t head) {
  DataSpec spec;
  spec.seed = values.seed;
  spec.launch = values.launch;
  spec.tensor = tensor;
  spec.rank = static_cast<uint64_t>((batch * values.seq + position) * values.heads + head);
  return key_of(spec);
}

MK_HD constexpr float uniform_value(uint64_t key, int64_t element) {
  return value_at({}, key, static_cast<uint64_t>(element));
}

// Of a key, in its first `bits` bits.
MK_HD constexpr uint64_t code_of(const AttentionValues& values, int64_t batch, int64_t position, int64_t kv_head) {
  return attention_key(values, static_cast<uint64_t>(AttentionTensor::kKeys), batch, position, kv_head);
}

// ±1 where the code has a bit, else 0.  Heads have theirs at different elements.
MK_HD constexpr float code_element(const AttentionValues& values, uint64_t code, int64_t batch, int64_t kv_head,
                                   int64_t element) {
  const uint64_t turned = static_cast<uint64_t>(element) + values.launch + static_cast<uint64_t>(batch + kv_head);
  const auto at = static_cast<int64_t>(turned % static_cast<uint64_t>(values.dim));
  const int64_t bit = at / values.stride;
  if (at % values.stride != 0 || bit >= values.bits) return 0;
  return (code >> bit & 1) != 0 ? 1.0f : -1.0f;
}

// Whose code a query has.
MK_HD constexpr int64_t sought_position(const AttentionValues& values, uint64_t key, int64_t position) {
  const auto in_sequence = [&](int64_t at) { return (at % values.seq + values.seq) % values.seq; };
  switch (key % 8) {
    case 0: return position;
    case 1: return in_sequence(position + 1);
    case 2: return in_sequence(position - values.window + 1);
    case 3: return in_sequence(position - values.window);
    default: return static_cast<int64_t>((key >> 3) % static_cast<uint64_t>(values.seq));
  }
}

// Of the gradients of o, of the row that has the key.
MK_HD constexpr float gradient_element(const AttentionValues& values, uint64_t key, int64_t element) {
  if (values.kind == DataKind::kUniform) return uniform_value(key, element) * values.gradient_size;
  const int64_t period = ceil_div(values.dim, AttentionValues::kMostGradients);
  const auto first = static_cast<int64_t>((key >> 40) % static_cast<uint64_t>(period));
  if (element % period != first) return 0;
  return uniform_value(key, element) > 0 ? values.gradient_size : -values.gradient_size;
}

// Before it is rounded to the tensor's type, which changes nothing if the data are exact.
MK_HD constexpr float attention_value(const AttentionValues& values, AttentionTensor tensor, int64_t batch,
                                      int64_t position, int64_t head, int64_t element) {
  const uint64_t key = attention_key(values, static_cast<uint64_t>(tensor), batch, position, head);
  const bool is_exact = values.kind == DataKind::kExact;
  if (tensor == AttentionTensor::kGradients) return gradient_element(values, key, element);
  if (tensor == AttentionTensor::kValues || tensor == AttentionTensor::kOutputs) {
    if (!is_exact) return uniform_value(key, element);
    DataSpec wholes;
    wholes.kind = DataKind::kExact;
    wholes.magnitude = AttentionValues::kWholes;
    return value_at(wholes, key, static_cast<uint64_t>(element));
  }
  const bool is_query = tensor == AttentionTensor::kQueries;
  const float size = is_query ? values.query_size : values.key_size;
  if (!is_exact) return uniform_value(key, element) * size;
  const int64_t kv_head = is_query ? values.kv_head(head) : head;
  const int64_t from = is_query ? sought_position(values, key, position) : position;
  return code_element(values, code_of(values, batch, from, kv_head), batch, kv_head, element) * size;
}

// The same on all ranks.
MK_HD inline float sink_value(const AttentionValues& values, int64_t head) {
  if (values.kind == DataKind::kExact) return static_cast<float>(head % 2 == 0 ? -values.sink : values.sink);
  const auto tensor = static_cast<uint64_t>(AttentionTensor::kSinks);
  return static_cast<float>(values.sink + uniform_value(attention_key(values, tensor, 0, 0, head), 0));
}

// Of the backward pass.  In kExact those of odd heads weigh as much as a key of the query's code: queries that see one
// take part in both.
MK_HD inline float backward_sink_value(const AttentionValues& values, int64_t head) {
  const bool is_exact = values.kind == DataKind::kExact;
  return is_exact && head % 2 == 1 ? static_cast<float>(values.best_score) : sink_value(values, head);
}

// ---- who has what ------------------------------------------------------------------------------------

// Rows of one rank, or with one rank of the whole sequence.
struct Shard {
  SequenceOrder order = SequenceOrder::kContiguous;
  int ranks = 1;
  int rank = 0;
  int64_t rows = 1;   // of the rank
  int64_t first = 0;  // position, of the first rank

  MK_HD constexpr int64_t position_of(int64_t row) const {
    if (order == SequenceOrder::kContiguous) return first + rank * rows + row;
    const int64_t half = rows / 2;
    return first + (row < half ? rank * half + row : (2 * ranks - 1 - rank) * half + (row - half));
  }
};

struct KeyRange {
  int64_t first = 0;
  int64_t end = 0;
};

// Sequences that are packed one after the other: sequence i has positions begins[i] … begins[i + 1] - 1.
struct PackedSequences {
  const int32_t* begins = nullptr;  // where the check runs
  int count = 0;                    // 0: one sequence has all positions

  MK_HD constexpr KeyRange of(int64_t position, int64_t seq) const {
    if (count == 0) return {0, seq};
    int low = 0;
    for (int high = count; high - low > 1;) {
      const int middle = (low + high) / 2;
      (begins[middle] <= position ? low : high) = middle;
    }
    return {begins[low], begins[low + 1]};
  }
};

}  // namespace mk::tools
