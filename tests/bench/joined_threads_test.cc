// SPDX-License-Identifier: MIT
// tests/bench/joined_threads_test.cc — what a benchmark's thread throws reaches whoever joins it.
#include "bench/joined_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

namespace mk::bench {
namespace {

TEST(JoinedThreads, ThrowWhatOneOfThemThrewWhenAllHaveEnded) {
  std::atomic<int> ended = 0;
  JoinedThreads threads;
  for (int i = 0; i < 4; ++i) {
    threads.start([&ended, i] {
      if (i == 2) throw std::bad_alloc();
      ++ended;
    });
  }
  EXPECT_THROW(threads.join(), std::bad_alloc);
  EXPECT_EQ(ended, 3);
  threads.join();
}

TEST(JoinedThreads, ThatNobodyJoinsEndQuietly) {
  JoinedThreads threads;
  threads.start([] { throw std::bad_alloc(); });
}

}  // namespace
}  // namespace mk::bench
