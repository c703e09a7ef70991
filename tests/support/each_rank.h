// SPDX-License-Identifier: MIT
// tests/support/each_rank.h — the same check of every rank, by a thread for each: some take long.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <vector>

namespace mk::test {

// The first failure, or success.
inline testing::AssertionResult each_rank_is_right(int ranks,
                                                   const std::function<testing::AssertionResult(int)>& check) {
  std::vector<std::future<testing::AssertionResult>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(std::async(std::launch::async, check, rank));
  testing::AssertionResult result = testing::AssertionSuccess();
  for (auto& one : all) {
    const testing::AssertionResult seen = one.get();
    if (result && !seen) result = testing::AssertionFailure() << seen.message();
  }
  return result;
}

}  // namespace mk::test
