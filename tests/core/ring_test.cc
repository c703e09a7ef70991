// SPDX-License-Identifier: MIT
// tests/core/ring_test.cc — the ring in one thread: laps, full, empty.
#include "core/ring.h"

#include <gtest/gtest.h>

#include "tests/support/ring_memory.h"

namespace mk::test {
namespace {

class Ring : public testing::TestWithParam<uint32_t> {
 protected:
  RingMemory memory{GetParam()};
  const Producer producer{memory.view()};
  Consumer consumer{memory.view()};

  void push(uint64_t number) { producer.publish(producer.claim(), numbered_command(number)); }
};

INSTANTIATE_TEST_SUITE_P(Capacities, Ring, testing::Values(1u, 2u, 4u, 16u), testing::PrintToStringParamName());

TEST_P(Ring, AZeroedRingIsEmpty) { EXPECT_EQ(consumer.peek(), nullptr); }

TEST_P(Ring, CommandsComeOutWholeAndInOrderOverManyLaps) {
  for (uint64_t number = 0; number < 5 * GetParam(); ++number) {
    push(number);
    const Command* command = consumer.peek();
    ASSERT_NE(command, nullptr);
    ASSERT_EQ(command->from_offset, number);
    ASSERT_TRUE(is_whole(*command));
    consumer.pop();
    ASSERT_EQ(consumer.peek(), nullptr) << "an old command is seen again";
  }
}

TEST_P(Ring, IsFreeExactlyWhileFewerThanCapacityAreWaiting) {
  const uint64_t capacity = GetParam();
  for (int lap = 0; lap < 4; ++lap) {
    const uint64_t first = lap * capacity;
    for (uint64_t i = 0; i < capacity; ++i) {
      ASSERT_TRUE(producer.is_free(first + i));
      push(first + i);
    }
    ASSERT_FALSE(producer.is_free(first + capacity)) << "the ring is full";
    for (uint64_t i = 0; i < capacity; ++i) {
      ASSERT_EQ(consumer.peek()->from_offset, first + i);
      consumer.pop();
      ASSERT_TRUE(producer.is_free(first + capacity + i)) << "the slot was taken out";
    }
    ASSERT_EQ(consumer.peek(), nullptr);
  }
}

TEST_P(Ring, AClaimedButUnpublishedSlotIsNotSeen) {
  const uint64_t position = producer.claim();
  EXPECT_EQ(consumer.peek(), nullptr);
  producer.publish(position, numbered_command(7));
  EXPECT_NE(consumer.peek(), nullptr);
}

TEST(RingSeal, DiffersBetweenALapAndTheNext) {
  RingMemory memory(4);
  const RingView view = memory.view();
  for (uint64_t position = 0; position < 32; ++position) {
    EXPECT_NE(view.seal(position), view.seal(position + view.capacity));
    EXPECT_EQ(view.slot(position), view.slot(position + view.capacity));
  }
  EXPECT_NE(view.seal(0), 0u) << "zeroed memory would look written";
}

}  // namespace
}  // namespace mk::test
