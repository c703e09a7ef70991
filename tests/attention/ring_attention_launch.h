// SPDX-License-Identifier: MIT
// tests/attention/ring_attention_launch.h — a launch of ring_attention through the public call, on CPUs, and its check.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "mkernel/ring_attention.h"
#include "runtime/world_state.h"
#include "tests/attention/attention_data.h"

namespace mk::test {

enum class Lse { kWanted, kNobodyWants };

class RingAttentionLaunch {
 public:
  // The ranks are those of the World that are here.  Outputs are NaN before; nobody may write between and behind them.
  RingAttentionLaunch(World& world, const AttentionCase& at, uint64_t seed, uint64_t launch, Lse lse = Lse::kWanted)
      : first_(world.first_rank()), at_(at), data_(at, seed, launch), sinks_(data_.sinks()) {
    const RingAttentionShape& shape = at.shape;
    for (int i = 0; i < world.num_ranks(); ++i) {
      const int rank = first_ + i;
      Rank& own = ranks_.emplace_back();
      own.q = placed(at, rank, 0, data_.q(rank));
      own.k = placed(at, rank, 1, data_.k(rank));
      own.v = placed(at, rank, 2, data_.v(rank));
      own.o = poisoned(at, rank, 3, data_.q(rank));
      if (lse == Lse::kWanted) own.lse.assign(shape.batch * shape.heads * shape.rows + 1, kPoison);
    }
    for (Rank& own : ranks_) {
      args_.push_back({.q = own.q.view(),
                       .k = own.k.view(),
                       .v = own.v.view(),
                       .o = own.o.view(),
                       .lse = lse == Lse::kWanted ? own.lse.data() : nullptr,
                       .sink = at.sinks == Sinks::kGiven ? sinks_.data() : nullptr});
    }
  }
  RingAttentionLaunch(const RingAttentionLaunch&) = delete;
  RingAttentionLaunch(RingAttentionLaunch&&) = default;

  void enqueue(World& world, const Split& split = {}) { ring_attention(world, args_, at_.options(split)); }

  testing::AssertionResult is_right() const {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const int rank = first_ + static_cast<int>(i);
      const Rank& own = ranks_[i];
      const bool is_clean = own.o.gaps_are_untouched() && (own.lse.empty() || std::isnan(own.lse.back()));
      if (!is_clean) return testing::AssertionFailure() << "rank " << rank << " wrote too much";
      if (const auto right = data_.is_right(rank, values_in(own.o, data_.q(rank)), own.lse); !right) return right;
    }
    return testing::AssertionSuccess();
  }

  // Nobody wrote a result.
  bool is_untouched() const {
    return std::ranges::all_of(ranks_, [](const Rank& own) {
      return own.o.is_untouched() && std::ranges::all_of(own.lse, [](float value) { return std::isnan(value); });
    });
  }

  bool has_the_bits_of(const RingAttentionLaunch& other) const {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& own = ranks_[i];
      const Rank& theirs = other.ranks_[i];
      const size_t bytes = own.lse.size() * sizeof(float);
      if (own.o.bytes != theirs.o.bytes || std::memcmp(own.lse.data(), theirs.lse.data(), bytes) != 0) return false;
    }
    return true;
  }

  std::vector<RingAttentionArgs>& args() { return args_; }

 private:
  static constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

  struct Rank {
    StridedHeads q, k, v, o;
    std::vector<float> lse;
  };

  int first_;
  AttentionCase at_;
  AttentionData data_;
  std::vector<float> sinks_;
  std::vector<Rank> ranks_;
  std::vector<RingAttentionArgs> args_;
};

// Launches of one shape, queued back to back, with data of their own.
inline testing::AssertionResult attends_right(World& world, const AttentionCase& at, int launches, uint64_t seed,
                                              const Split& split = {}) {
  std::vector<RingAttentionLaunch> queued;
  for (int launch = 0; launch < launches; ++launch) {
    queued.emplace_back(world, at, seed, launch, launch % 3 == 2 ? Lse::kNobodyWants : Lse::kWanted);
  }
  for (RingAttentionLaunch& launch : queued) launch.enqueue(world, split);
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
