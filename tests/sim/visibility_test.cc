// SPDX-License-Identifier: MIT
// tests/sim/visibility_test.cc — shadow memory knows which accesses no signal orders.
#include "target/sim/visibility.h"

#include <gtest/gtest.h>

namespace mk::sim {
namespace {

constexpr int kThreads = 3;

struct Thread {
  explicit Thread(int id) : id(id), clock(kThreads) { clock.tick(id); }
  Access access() const { return {id, clock[id], 1, 0}; }
  // What `other` did so far is ordered before what this one does from here on.
  void hears_from(Thread& other) {
    clock.join(other.clock);
    other.clock.tick(other.id);
  }
  int id;
  Clock clock;
};

class Visibility : public testing::Test {
 protected:
  bool read(const Thread& t, uint64_t begin, uint64_t end) { return !shadow.read(begin, end, t.access(), t.clock); }
  bool write(const Thread& t, uint64_t begin, uint64_t end) { return !shadow.write(begin, end, t.access(), t.clock); }

  Shadow shadow;
  Thread a{0}, b{1}, c{2};
};

TEST_F(Visibility, AReaderThatHeardFromTheWriterMayRead) {
  EXPECT_TRUE(write(a, 0, 16));
  b.hears_from(a);
  EXPECT_TRUE(read(b, 0, 16));
}

TEST_F(Visibility, AReaderThatHeardNothingMayNotEvenIfTheBytesAreThere) {
  EXPECT_TRUE(write(a, 0, 16));
  EXPECT_FALSE(read(b, 0, 16));
}

TEST_F(Visibility, AWriteAfterTheSignalIsNotCoveredByIt) {
  EXPECT_TRUE(write(a, 0, 16));
  b.hears_from(a);
  EXPECT_TRUE(write(a, 0, 16));
  EXPECT_FALSE(read(b, 0, 16));
}

TEST_F(Visibility, OrderPassesOnThroughAThird) {
  EXPECT_TRUE(write(a, 0, 16));
  b.hears_from(a);
  c.hears_from(b);
  EXPECT_TRUE(read(c, 0, 16));
}

TEST_F(Visibility, MemoryNobodyWroteCannotBeRead) { EXPECT_FALSE(read(a, 0, 16)); }

TEST_F(Visibility, OverwritingWhatSomebodyMayStillReadIsAnError) {
  EXPECT_TRUE(write(a, 0, 16));
  b.hears_from(a);
  EXPECT_TRUE(read(b, 0, 16));
  EXPECT_FALSE(write(a, 0, 16));
}

TEST_F(Visibility, AHandBackMakesTheOverwriteRight) {
  EXPECT_TRUE(write(a, 0, 16));
  b.hears_from(a);
  EXPECT_TRUE(read(b, 0, 16));
  a.hears_from(b);
  EXPECT_TRUE(write(a, 0, 16));
}

TEST_F(Visibility, RangesAreCutWhereAccessesEnd) {
  EXPECT_TRUE(write(a, 0, 32));
  b.hears_from(a);
  EXPECT_TRUE(write(a, 8, 16));  // only the middle is new
  EXPECT_TRUE(read(b, 0, 8));
  EXPECT_TRUE(read(b, 16, 32));
  EXPECT_FALSE(read(b, 0, 32));
  EXPECT_FALSE(read(b, 15, 17));
}

TEST_F(Visibility, TheConflictNamesTheOtherAndTheRange) {
  EXPECT_TRUE(write(a, 0, 32));
  EXPECT_TRUE(write(b, 64, 96));
  c.hears_from(a);
  const auto conflict = shadow.read(0, 80, c.access(), c.clock);
  ASSERT_TRUE(conflict.has_value());
  EXPECT_EQ(conflict->earlier.thread, -1);  // the gap comes first
  EXPECT_EQ(conflict->begin, 32u);
  EXPECT_EQ(conflict->end, 64u);
  const auto other = shadow.read(64, 80, c.access(), c.clock);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->earlier.thread, b.id);
  EXPECT_TRUE(other->earlier_wrote);
}

}  // namespace
}  // namespace mk::sim
