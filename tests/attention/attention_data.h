// SPDX-License-Identifier: MIT
// tests/attention/attention_data.h — inputs of attention for a whole world, cut into the parts of its ranks, and what
// is right, in double, position by position.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/world_shape.h"
#include "mkernel/ring_attention.h"
#include "tests/attention/attention_cases.h"
#include "tests/attention/strided_heads.h"
#include "tools/attention_values.h"

namespace mk::test {

enum class Sinks { kNone, kGiven };

struct AttentionCase {
  WorldShape world;
  AttentionForm form = {};
  RingAttentionShape shape;
  Sinks sinks = Sinks::kNone;
  std::optional<float> scale = {};
  HeadsLie lie = HeadsLie::kWithoutGaps;  // all tensors

  RingAttentionOptions options(const Split& split = {}) const {
    return {form.mask, form.order, scale, split, packed_ends(form, seq())};
  }
  int64_t seq() const { return world.size() * shape.rows; }
};

// Positions of a rank's rows, in their order: found by dealing out the parts of the sequence.
std::vector<int64_t> positions_of(const AttentionCase& at, int rank);

// [batch, rows, heads, dim] of one rank.
struct HeadValues {
  std::vector<std::byte> bytes;
  DType dtype;
  int64_t batch, rows, heads, dim;

  HeadTensor view() { return {bytes.data(), dtype, batch, rows, heads, dim}; }
};

// Number `which` of a rank's tensors in its launch, as the case has it: with elements, or poison.
inline StridedHeads placed(const AttentionCase& at, int rank, int which, HeadValues values) {
  return {at.lie, values.view(), rank + which, values.bytes};
}
inline StridedHeads poisoned(const AttentionCase& at, int rank, int which, HeadValues like) {
  return {at.lie, like.view(), rank + which};
}
// What is in it now.
inline HeadValues values_in(const StridedHeads& heads, HeadValues like) {
  like.bytes = heads.dense();
  return like;
}

class AttentionData {
 public:
  // Launches with even numbers have uniform data, the others exact ones.
  AttentionData(const AttentionCase& at, uint64_t seed, uint64_t launch);

  HeadValues q(int rank) const { return shard(tools::AttentionTensor::kQueries, at_.shape.heads, rank); }
  HeadValues k(int rank) const { return shard(tools::AttentionTensor::kKeys, at_.shape.kv_heads, rank); }
  HeadValues v(int rank) const { return shard(tools::AttentionTensor::kValues, at_.shape.kv_heads, rank); }
  const std::vector<float>& sinks() const { return sinks_; }

  // What a launch left; `lse` [batch, heads, rows], or empty if nobody asked for it.
  testing::AssertionResult is_right(int rank, const HeadValues& o, const std::vector<float>& lse) const;

 private:
  struct Query {
    int64_t batch, position, head;
  };

  HeadValues shard(tools::AttentionTensor tensor, int64_t heads, int rank) const;
  testing::AssertionResult is_right(const Query& query, const float* q, const float* o, const float* lse) const;

  AttentionCase at_;
  float scale_;
  tools::AttentionValues values_;
  std::vector<float> sinks_;
  std::vector<std::vector<double>> all_keys_, all_values_;  // [batch, kv_heads] of [seq, dim]
};

}  // namespace mk::test
