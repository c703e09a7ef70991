// SPDX-License-Identifier: MIT
// tests/core/stamp_test.cc — stamps hold what was put into them and sort by epoch; payments add or raise.
#include "core/stamp.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/payment.h"

namespace mk::test {
namespace {

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();

TEST(Stamp, HoldsItsEpochAndItsLowNumber) {
  for (const uint64_t epoch : {uint64_t{1}, uint64_t{2}, uint64_t{1'000'000}, uint64_t{kMost}}) {
    for (const uint32_t low : {0u, 1u, 4711u, kMost}) {
      EXPECT_EQ(epoch_in(stamp_of(epoch, low)), epoch);
      EXPECT_EQ(low_in(stamp_of(epoch, low)), low);
    }
  }
  EXPECT_EQ(stamp_of(3, 5), 0x3'0000'0005u);
}

TEST(Stamp, OfALaterLaunchIsLargerWhateverItsLowNumber) {
  EXPECT_GT(stamp_of(2, 0), stamp_of(1, kMost));
  EXPECT_GT(stamp_of(1'000'000, 0), stamp_of(999'999, kMost));
  EXPECT_GT(stamp_of(1, 0), 0u);
}

TEST(Payment, AddsItsAmountUnlessItHasAStamp) {
  EXPECT_EQ(after_payment(7, {5, 0}), 12u);
  EXPECT_EQ(after_payment(7, {0, 0}), 7u);
  EXPECT_EQ(after_payment(7, {5, 8}), 8u);
}

TEST(Payment, AStampNeverMakesASignalShrink) {
  EXPECT_EQ(after_payment(0, {1, stamp_of(1, 9)}), stamp_of(1, 9));
  EXPECT_EQ(after_payment(stamp_of(1, 9), {1, stamp_of(1, 9)}), stamp_of(1, 9));
  EXPECT_EQ(after_payment(stamp_of(5, 0), {1, stamp_of(4, kMost)}), stamp_of(5, 0));
  EXPECT_EQ(after_payment(stamp_of(kMost, kMost), {1, 1}), stamp_of(kMost, kMost));
}

}  // namespace
}  // namespace mk::test
