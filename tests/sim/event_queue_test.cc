// SPDX-License-Identifier: MIT
// tests/sim/event_queue_test.cc — the ladder queue gives events in the order a heap would.
#include "target/sim/event_queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "target/sim/random.h"

namespace mk::sim {
namespace {

using Key = std::tuple<Time, uint64_t, uint32_t>;

// Pushes and pops by `delay_of`, beside a heap.  `held` is how many events there are on average.
void expect_order_of_a_heap(uint64_t seed, size_t held, const std::function<Time(Random&)>& delay_of) {
  Random random(seed);
  EventQueue queue;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> heap;
  Time now = 0;
  const auto push = [&](uint32_t target) {
    const TimedEvent event{now + delay_of(random), random.next(), target};
    queue.push(event);
    heap.emplace(event.time, event.tie, event.target);
  };
  for (uint32_t i = 0; i < 20 * held; ++i) {
    for (size_t pushes = heap.size() < held ? 2 : random.below(2); pushes > 0; --pushes) push(i);
    TimedEvent event{};
    ASSERT_EQ(queue.pop(event), !heap.empty());
    if (heap.empty()) continue;
    ASSERT_EQ(Key(event.time, event.tie, event.target), heap.top()) << "event " << i << ", seed " << seed;
    heap.pop();
    now = event.time;
  }
  for (TimedEvent event{}; queue.pop(event); heap.pop()) ASSERT_EQ(event.tie, std::get<1>(heap.top()));
  EXPECT_TRUE(heap.empty());
}

TEST(EventQueue, OrderIsThatOfAHeapForFewEvents) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    expect_order_of_a_heap(seed, 20, [](Random& random) { return random.below(1000); });
  }
}

TEST(EventQueue, OrderIsThatOfAHeapForManyEventsNearAndFar) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    expect_order_of_a_heap(seed, 5000, [](Random& random) { return random.next() >> (20 + random.below(44)); });
  }
}

TEST(EventQueue, OrderIsThatOfAHeapWhereManyAreAtTheSameTime) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    expect_order_of_a_heap(seed, 3000, [](Random& random) { return random.below(4) * 1'000'000; });
  }
}

TEST(EventQueue, TheLastTimeThereIsHasItsTurn) {
  EventQueue queue;
  for (uint64_t i = 0; i < 200; ++i) queue.push({i % 2 == 0 ? kEndOfTime - 1 : i, i, 0});
  TimedEvent event{};
  Time last = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(queue.pop(event));
    EXPECT_GE(event.time, last);
    last = event.time;
  }
  EXPECT_EQ(last, kEndOfTime - 1);
  EXPECT_FALSE(queue.pop(event));
}

}  // namespace
}  // namespace mk::sim
