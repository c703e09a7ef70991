// SPDX-License-Identifier: MIT
// tests/support/moe_told_drops.h — what launches tell of pairs that they dropped, and its check.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/moe_data.h"

namespace mk::test {

// What is not told yet, and one more behind the end, which nobody may write.
constexpr int32_t kUntold = -7777;

inline testing::AssertionResult are_right_drops(const MoeLaunchData& data, int rank, const std::vector<int32_t>& routed,
                                                const std::vector<int32_t>& dropped) {
  std::vector<int32_t> right(data.routed_ids(rank).begin(), data.routed_ids(rank).end());
  right.push_back(kUntold);
  if (routed != right) return testing::AssertionFailure() << "routed_idx of rank " << rank << " is wrong";
  right.clear();
  for (int slot = 0; slot < data.named_slots(); ++slot) right.push_back(data.dropped(rank, slot));
  right.push_back(kUntold);
  if (dropped != right) return testing::AssertionFailure() << "dropped of rank " << rank << " is wrong";
  return testing::AssertionSuccess();
}

class ToldDrops {
 public:
  // The next rank's on a CPU, if anything may be dropped.  Args: of either operator.
  template <class Args>
  void take(Args& args, const MoeLaunchData& data, int rank) {
    if (data.problem().shape.overflow == MoeOverflow::kRefuse) return;
    routed_.emplace_back(data.rank(rank).ids.size() + 1, kUntold);
    dropped_.emplace_back(data.named_slots() + 1, kUntold);
    args.routed_idx = routed_.back().data();
    args.dropped = dropped_.back().data();
  }

  testing::AssertionResult is_right(const MoeLaunchData& data, int first_rank) const {
    for (size_t i = 0; i < routed_.size(); ++i) {
      const auto right = are_right_drops(data, first_rank + static_cast<int>(i), routed_[i], dropped_[i]);
      if (!right) return right;
    }
    return testing::AssertionSuccess();
  }

 private:
  std::vector<std::vector<int32_t>> routed_, dropped_;
};

}  // namespace mk::test
