// SPDX-License-Identifier: MIT
// tests/attention/attention_backward_data.h — inputs of the backward pass of attention for a whole world, what is
// right, in double, position by position, and launches on CPUs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "mkernel/ring_attention_backward.h"
#include "runtime/world_state.h"
#include "tests/attention/attention_data.h"
#include "tools/attention_backward_judge.h"
#include "tools/attention_judge.h"

namespace mk::test {

// Where o and lse come from.
enum class Outputs {
  kDrawn,             // o is data like q, k and v; lse follows from q, k and the sinks
  kOfTheForwardPass,  // from a launch of ring_attention: bounds allow for what that may be off.  Only for even launches
};

// What a launch left at one rank.
struct AttentionGradients {
  HeadValues dq, dk, dv;
  std::vector<float> dsink;  // [heads], or empty if nobody asked for it
};

class AttentionBackwardData {
 public:
  // Launches with even numbers have uniform data, the others exact ones.
  AttentionBackwardData(const AttentionCase& at, uint64_t seed, uint64_t launch, Outputs outputs = Outputs::kDrawn);

  HeadValues q(int rank) const { return shard(q_, rank); }
  HeadValues k(int rank) const { return shard(k_, rank); }
  HeadValues v(int rank) const { return shard(v_, rank); }
  HeadValues o(int rank) const { return shard(o_, rank); }
  HeadValues dout(int rank) const { return shard(dout_, rank); }
  std::vector<float> lse(int rank) const;  // [batch, heads, rows]
  const std::vector<float>& sinks() const { return sinks_; }
  float scale() const { return scale_; }

  testing::AssertionResult is_right(int rank, const AttentionGradients& seen) const;

  // [batch, positions, heads, dim] of the world.
  struct Whole {
    std::vector<float> elements;
    int64_t seq = 0, heads = 0, dim = 0;

    int64_t offset(int64_t batch, int64_t position, int64_t head) const {
      return ((batch * seq + position) * heads + head) * dim;
    }
    const float* row(int64_t batch, int64_t position, int64_t head) const {
      return elements.data() + offset(batch, position, head);
    }
  };
  const Whole& all_queries() const { return q_; }
  const Whole& all_keys() const { return k_; }
  const Whole& all_values() const { return v_; }
  const Whole& all_output_gradients() const { return dout_; }

 private:
  struct Query;
  // Of each element of the world.
  using Sums = std::vector<tools::SlotSum>;

  Whole drawn(tools::AttentionTensor tensor, int64_t heads) const;
  // One rank's rows; `whole` holds what the type holds.
  HeadValues shard(const Whole& whole, int rank) const;
  Query query_at(int64_t batch, int64_t head, int64_t position) const;
  void take_forward_result(Query& query, const tools::SoftmaxSums& sums) const;
  tools::QueryNotes notes_of(const Query& query) const;
  void differentiate(const Query& query);
  tools::Bounded sink_part(const Query& query, const tools::QueryNotes& notes) const;
  testing::AssertionResult matches(const std::string& name, const HeadValues& seen, const Whole& like, const Sums& sums,
                                   double unit, int rank) const;

  AttentionCase at_;
  Outputs outputs_;
  float scale_;
  tools::AttentionValues values_;
  tools::BackwardRule rule_;
  Whole q_, k_, v_, o_, dout_;
  std::vector<float> sinks_;
  std::vector<int> owners_;                         // of positions
  std::vector<float> lse_;                          // [batch, heads, positions]
  std::vector<int64_t> queries_seeing_;             // each key, of one head
  Sums dq_, dk_, dv_;                               // as q_ and k_
  std::vector<std::vector<tools::Bounded>> dsink_;  // [rank][head]
};

enum class SinkGradients { kWanted, kNobodyWants };

// A launch of ring_attention_backward through the public call, and its check.
class AttentionBackwardLaunch {
 public:
  // The ranks are those of the World that are here.  Outputs are NaN before; nobody may write between and behind them.
  AttentionBackwardLaunch(World& world, const AttentionCase& at, uint64_t seed, uint64_t launch,
                          Outputs outputs = Outputs::kDrawn, SinkGradients sinks = SinkGradients::kWanted);
  AttentionBackwardLaunch(const AttentionBackwardLaunch&) = delete;
  AttentionBackwardLaunch(AttentionBackwardLaunch&&) = default;

  // If o and lse are of the forward pass, its launch goes first.
  void enqueue(World& world, const Split& split = {});
  // All ranks but one, of a World in one process.
  void enqueue_without(World& world, int missing);

  testing::AssertionResult is_right() const;
  // Nobody wrote a gradient.
  bool is_untouched() const;
  bool has_the_bits_of(const AttentionBackwardLaunch& other) const {
    return std::ranges::equal(ranks_, other.ranks_, [](const Rank& own, const Rank& theirs) {
      return own.dq.bytes == theirs.dq.bytes && own.dk.bytes == theirs.dk.bytes && own.dv.bytes == theirs.dv.bytes &&
             own.dsink.size() == theirs.dsink.size() &&
             std::memcmp(own.dsink.data(), theirs.dsink.data(), own.dsink.size() * sizeof(float)) == 0;
    });
  }

  std::vector<RingAttentionBackwardArgs>& args() { return args_; }

 private:
  struct Rank {
    StridedHeads q, k, v, o, dout;
    std::vector<float> lse;
    StridedHeads dq, dk, dv;
    std::vector<float> dsink;
  };

  RingAttentionBackwardArgs args_of(Rank& own);

  int first_;
  AttentionCase at_;
  Outputs outputs_;
  AttentionBackwardData data_;
  std::vector<float> sinks_;
  std::vector<Rank> ranks_;
  std::vector<RingAttentionBackwardArgs> args_;
};

// Launches of one shape, queued back to back, with data of their own.
inline testing::AssertionResult differentiates_right(World& world, const AttentionCase& at, int launches, uint64_t seed,
                                                     const Split& split = {}) {
  std::vector<AttentionBackwardLaunch> queued;
  for (int launch = 0; launch < launches; ++launch) {
    queued.emplace_back(world, at, seed, launch, Outputs::kDrawn,
                        launch % 3 == 2 ? SinkGradients::kNobodyWants : SinkGradients::kWanted);
  }
  for (AttentionBackwardLaunch& launch : queued) launch.enqueue(world, split);
  world.synchronize();
  for (int launch = 0; launch < launches; ++launch) {
    if (const auto right = queued[launch].is_right(); !right) {
      return testing::AssertionFailure() << name_of(at.world) << " " << name_of(at.form) << ", launch " << launch
                                         << ": " << right.message();
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace mk::test
