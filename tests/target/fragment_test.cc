// SPDX-License-Identifier: MIT
// tests/target/fragment_test.cc — the registers of a warpgroup hold every element once, and sums become the next A.
#include "target/sm90/fragment.h"

#include <gtest/gtest.h>

#include <vector>

namespace mk::sm90 {
namespace {

TEST(Fragment, SumsCoverAResultOnce) {
  constexpr int kN = 48;
  std::vector<int> seen(64 * kN);
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < kN / 2; ++i) {
      ++seen.at(Fragment::sum_row(thread, i) * kN + Fragment::sum_col(thread, i));
    }
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST(Fragment, WordsCoverALeftOperandOnce) {
  std::vector<int> seen(64 * 16);
  for (int thread = 0; thread < 128; ++thread) {
    for (int word = 0; word < 4; ++word) {
      const int first = Fragment::a_row(thread, word) * 16 + Fragment::a_col(thread, word);
      ++seen.at(first);
      ++seen.at(first + 1);
    }
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST(Fragment, SumsInPairsAreTheWordsOfTheNextLeftOperand) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int step = 0; step < 8; ++step) {
      for (int word = 0; word < 4; ++word) {
        const int sum = Fragment::sum_of_word(step, word);
        EXPECT_EQ(Fragment::sum_row(thread, sum), Fragment::a_row(thread, word));
        EXPECT_EQ(Fragment::sum_row(thread, sum + 1), Fragment::a_row(thread, word));
        EXPECT_EQ(Fragment::sum_col(thread, sum), 16 * step + Fragment::a_col(thread, word));
        EXPECT_EQ(Fragment::sum_col(thread, sum + 1), 16 * step + Fragment::a_col(thread, word) + 1);
      }
    }
  }
}

}  // namespace
}  // namespace mk::sm90
