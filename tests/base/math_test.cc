// SPDX-License-Identifier: MIT
// tests/base/math_test.cc — the small maths, against its definition.
#include "base/math.h"

#include <gtest/gtest.h>

namespace mk::test {
namespace {

TEST(CeilDiv, IsTheFewestBlocksThatHoldEverything) {
  for (int b = 1; b <= 17; ++b) {
    for (int a = 0; a <= 70; ++a) {
      const int blocks = ceil_div(a, b);
      ASSERT_GE(blocks * b, a);
      ASSERT_LT((blocks - 1) * b, a) << "one block fewer would do";
    }
  }
}

TEST(RoundUp, IsTheNextMultiple) {
  for (int multiple = 1; multiple <= 17; ++multiple) {
    for (int a = 0; a <= 70; ++a) {
      const int rounded = round_up(a, multiple);
      ASSERT_EQ(rounded % multiple, 0);
      ASSERT_GE(rounded, a);
      ASSERT_LT(rounded - multiple, a);
    }
  }
}

TEST(Divider, DividesAsDivisionDoes) {
  constexpr int kMost = 0x7fffffff;
  for (const int by : {1, 2, 3, 5, 7, 31, 32, 33, 641, 4096, 65535, 65537, 1 << 28, (1 << 30) + 1, kMost}) {
    const Divider divider(by);
    ASSERT_EQ(divider.by(), by);
    for (const int64_t multiple : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1000}, int64_t{kMost} / by}) {
      for (const int64_t beside : {-1, 0, 1}) {
        const int64_t a = multiple * by + beside;
        if (a < 0 || a > kMost) continue;
        ASSERT_EQ(divider.quotient(static_cast<int>(a)), a / by) << a << " / " << by;
      }
    }
    ASSERT_EQ(divider.quotient(kMost), kMost / by) << by;
  }
  for (int by = 1; by <= 70; ++by) {
    for (int a = 0; a <= 300; ++a) ASSERT_EQ(Divider(by).quotient(a), a / by) << a << " / " << by;
  }
}

TEST(Wrap, IsCongruentAndInRange) {
  for (int n = 1; n <= 9; ++n) {
    for (int a = -30; a <= 30; ++a) {
      const int wrapped = wrap(a, n);
      ASSERT_GE(wrapped, 0);
      ASSERT_LT(wrapped, n);
      ASSERT_EQ((a - wrapped) % n, 0);
    }
  }
}

TEST(MinMax, TakeTheSmallerAndTheLarger) {
  EXPECT_EQ(min_of(-2, 3), -2);
  EXPECT_EQ(min_of(3, -2), -2);
}

}  // namespace
}  // namespace mk::test
