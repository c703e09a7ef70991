// SPDX-License-Identifier: MIT
// tests/attention/attention_data.cc — see attention_data.h.
#include "tests/attention/attention_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "tools/attention_judge.h"
#include "tools/host_loops.h"

namespace mk::test {
namespace {

using tools::AttentionTensor;

tools::AttentionValues values_for(const AttentionCase& at, float scale, uint64_t seed, uint64_t launch) {
  const RingAttentionShape& shape = at.shape;
  return tools::attention_values_for(
      {shape.batch, at.seq(), shape.heads, shape.kv_heads, shape.dim, scale, at.form.mask}, seed, launch);
}

std::vector<float> floats_of(const HeadValues& values) {
  std::vector<float> floats;
  tools::with_host_type(values.dtype, [&]<class T>() {
    const T* const data = reinterpret_cast<const T*>(values.bytes.data());
    for (size_t i = 0; i < values.bytes.size() / sizeof(T); ++i) floats.push_back(to_float(data[i]));
  });
  return floats;
}

// [seq, dim] of one head and sequence of the batch, put together from what the ranks have.
std::vector<double> gathered(const std::vector<std::vector<float>>& of_ranks, const AttentionCase& at, int64_t heads,
                             int64_t batch, int64_t head) {
  const int64_t dim = at.shape.dim;
  std::vector<double> all(at.seq() * dim, std::numeric_limits<double>::quiet_NaN());
  for (int rank = 0; rank < at.world.size(); ++rank) {
    const std::vector<int64_t> positions = positions_of(at, rank);
    for (int64_t row = 0; row < at.shape.rows; ++row) {
      const int64_t from = ((batch * at.shape.rows + row) * heads + head) * dim;
      for (int64_t d = 0; d < dim; ++d) all[positions[row] * dim + d] = of_ranks[rank][from + d];
    }
  }
  return all;
}

// One query's attention, as the definition has it.
struct NaiveRow {
  tools::SoftmaxSums sums;
  std::vector<double> o, magnitudes;

  NaiveRow(const float* q, const std::vector<double>& k, const std::vector<double>& v, int64_t dim,
           const std::vector<int64_t>& keys, double scale, std::optional<double> sink)
      : o(dim), magnitudes(dim) {
    std::vector<double> scores;
    for (const int64_t key : keys) {
      double score = 0;
      for (int64_t d = 0; d < dim; ++d) score += static_cast<double>(q[d]) * k[key * dim + d];
      scores.push_back(score * scale);
    }
    sums.seen = static_cast<double>(keys.size());
    sums.maximum = sink.value_or(-std::numeric_limits<double>::infinity());
    for (const double score : scores) sums.maximum = std::max(sums.maximum, score);
    const auto weigh = [&](double score) {
      sums.counted += tools::counts(score - sums.maximum) ? 1 : 0;
      sums.sum += std::exp(score - sums.maximum);
      return std::exp(score - sums.maximum);
    };
    for (size_t i = 0; i < keys.size(); ++i) {
      const double weight = weigh(scores[i]);
      for (int64_t d = 0; d < dim; ++d) {
        o[d] += weight * v[keys[i] * dim + d];
        magnitudes[d] += std::fabs(weight * v[keys[i] * dim + d]);
      }
    }
    if (sink) weigh(*sink);
    for (double& sum : o) sum /= sums.sum;
    for (double& sum : magnitudes) sum /= sums.sum;
  }
};

}  // namespace

std::vector<int64_t> positions_of(const AttentionCase& at, int rank) {
  const int ranks = at.world.size();
  std::vector<int> owners;  // of the parts, in the order of positions
  for (int i = 0; i < ranks; ++i) owners.push_back(i);
  if (at.form.order == SequenceOrder::kZigzag) {
    for (int i = ranks; i > 0; --i) owners.push_back(i - 1);
  }
  const int64_t rows = at.seq() / std::ssize(owners);
  std::vector<int64_t> positions;
  for (int64_t part = 0; part < std::ssize(owners); ++part) {
    for (int64_t i = 0; i < rows && owners[part] == rank; ++i) positions.push_back(part * rows + i);
  }
  return positions;
}

AttentionData::AttentionData(const AttentionCase& at, uint64_t seed, uint64_t launch)
    : at_(at), scale_(tools::scale_or_default(at.scale, at.shape.dim)), values_(values_for(at, scale_, seed, launch)) {
  const RingAttentionShape& shape = at.shape;
  for (int64_t head = 0; head < shape.heads; ++head) sinks_.push_back(tools::sink_value(values_, head));
  std::vector<std::vector<float>> keys, values;
  for (int rank = 0; rank < at.world.size(); ++rank) {
    keys.push_back(floats_of(k(rank)));
    values.push_back(floats_of(v(rank)));
  }
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t head = 0; head < shape.kv_heads; ++head) {
      all_keys_.push_back(gathered(keys, at, shape.kv_heads, batch, head));
      all_values_.push_back(gathered(values, at, shape.kv_heads, batch, head));
    }
  }
}

HeadValues AttentionData::shard(AttentionTensor tensor, int64_t heads, int rank) const {
  const RingAttentionShape& shape = at_.shape;
  HeadValues values{{}, shape.dtype, shape.batch, shape.rows, heads, shape.dim};
  const std::vector<int64_t> positions = positions_of(at_, rank);
  tools::with_host_type(shape.dtype, [&]<class T>() {
    values.bytes.resize(shape.batch * shape.rows * heads * shape.dim * sizeof(T));
    T* to = reinterpret_cast<T*>(values.bytes.data());
    for (int64_t batch = 0; batch < shape.batch; ++batch) {
      for (const int64_t position : positions) {
        for (int64_t i = 0; i < heads * shape.dim; ++i) {
          *to++ = from_float<T>(tools::attention_value(values_, tensor, batch, position, i / shape.dim, i % shape.dim));
        }
      }
    }
  });
  return values;
}

testing::AssertionResult AttentionData::is_right(int rank, const HeadValues& o, const std::vector<float>& lse) const {
  const std::vector<float> queries = floats_of(q(rank));
  const std::vector<float> seen = floats_of(o);
  const std::vector<int64_t> positions = positions_of(at_, rank);
  const RingAttentionShape& shape = at_.shape;
  for (int64_t i = 0; i < shape.batch * shape.rows * shape.heads; ++i) {
    const int64_t token = i / shape.heads;
    const Query query{token / shape.rows, positions[token % shape.rows], i % shape.heads};
    const int64_t of_lse = (query.batch * shape.heads + query.head) * shape.rows + token % shape.rows;
    const float* const asked = lse.empty() ? nullptr : &lse[of_lse];
    if (const auto right = is_right(query, &queries[i * shape.dim], &seen[i * shape.dim], asked); !right) {
      return testing::AssertionFailure() << "rank " << rank << ", batch " << query.batch << ", position "
                                         << query.position << ", head " << query.head << ": " << right.message();
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult AttentionData::is_right(const Query& query, const float* q, const float* o,
                                                 const float* lse) const {
  const RingAttentionShape& shape = at_.shape;
  const int64_t sequence = query.batch * shape.kv_heads + query.head * shape.kv_heads / shape.heads;
  std::vector<int64_t> visible;
  for (int64_t key = 0; key < at_.seq(); ++key) {
    if (sees(at_.form, at_.seq(), query.position, key)) visible.push_back(key);
  }
  std::optional<double> sink;
  if (at_.sinks == Sinks::kGiven) sink = sinks_[query.head];
  NaiveRow naive(q, all_keys_[sequence], all_values_[sequence], shape.dim, visible, scale_, sink);
  const tools::AttentionRule rule = tools::attention_rule(values_, shape.dtype, scale_);
  double elements = 0;
  for (int64_t d = 0; d < shape.dim; ++d) elements += std::fabs(q[d]);
  naive.sums.magnitudes = tools::score_magnitude(rule, elements);
  if (sink && tools::counts(*sink - naive.sums.maximum)) {
    naive.sums.magnitudes = std::max(naive.sums.magnitudes, std::fabs(*sink));
  }
  for (int64_t d = 0; d < shape.dim; ++d) {
    const double allowed = tools::o_tolerance(rule, naive.sums, naive.o[d], naive.magnitudes[d]);
    if (std::fabs(o[d] - naive.o[d]) <= allowed) continue;
    return testing::AssertionFailure() << "element " << d << " of o is " << o[d] << ", not " << naive.o[d] << " within "
                                       << allowed;
  }
  const double right = tools::lse_of(naive.sums);
  const double allowed = tools::lse_tolerance(rule, naive.sums);
  if (lse == nullptr || std::fabs(*lse - right) <= allowed) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "lse is " << *lse << ", not " << right << " within " << allowed;
}

}  // namespace mk::test
