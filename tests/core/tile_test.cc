// SPDX-License-Identifier: MIT
// tests/core/tile_test.cc — blocks cover their length, and commands carry what puts say.
#include "core/tile.h"

#include <gtest/gtest.h>

#include "core/command.h"

namespace mk::test {
namespace {

TEST(BlockRange, BlocksFollowEachOtherAndCoverTheLength) {
  for (int64_t size = 1; size <= 9; ++size) {
    for (int64_t length = 1; length <= 40; ++length) {
      int64_t covered = 0;
      for (int64_t i = 0; i < ceil_div(length, size); ++i) {
        const Range block = block_range(length, size, i);
        ASSERT_EQ(block.first, covered);
        ASSERT_GE(block.count, 1);
        ASSERT_LE(block.count, size);
        covered += block.count;
      }
      ASSERT_EQ(covered, length);
    }
  }
}

TEST(Command, CarriesThePutWithTheWorldsWindowNumbers) {
  constexpr uint32_t kIds[] = {0, 0, 0, 0, 41, 42, 43};  // inputs have none
  const WindowTable windows{nullptr, kIds, 1};
  const Command command =
      to_command({{kFirstOperatorWindow, 0, 10}, {kFirstOperatorWindow + 1, 7, 20}, 30, {7, 5}, 9, 11}, windows);
  EXPECT_EQ(command.from_window, 42u);
  EXPECT_EQ(command.from_offset, 10u);
  EXPECT_EQ(command.to_window, 43u);
  EXPECT_EQ(command.to_offset, 20u);
  EXPECT_EQ(command.bytes, 30u);
  EXPECT_EQ(command.signal_window, 41u);
  EXPECT_EQ(command.signal_index, 5u);
  EXPECT_EQ(command.amount, 9u);
  EXPECT_EQ(command.to_rank, 7u);
  EXPECT_EQ(command.stamp, 11u);
  EXPECT_EQ(payment_of(command), (Payment{9, 11}));
}

TEST(Command, OfAPutThatSaysNothingElseAddsOne) {
  constexpr uint32_t kIds[] = {0, 0, 0, 0, 41, 42, 43};  // inputs have none
  EXPECT_EQ(payment_of(to_command({{kFirstOperatorWindow, 0, 10}, {kFirstOperatorWindow + 1, 7, 20}, 30, {7, 5}},
                                  {nullptr, kIds, 1})),
            (Payment{1, 0}));
}

}  // namespace
}  // namespace mk::test
