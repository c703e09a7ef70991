// SPDX-License-Identifier: MIT
// tests/race/ring_race_test.cc — several producers and one consumer.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/ring_memory.h"

namespace mk::test {
namespace {

constexpr int kProducers = 4;
constexpr uint64_t kCommandsEach = 1500;

class RingRace : public testing::TestWithParam<uint32_t> {
 protected:
  // Every producer writes a plain word first: what it publishes releases it.
  void produce(int producer) {
    const Producer ring{memory.view()};
    for (uint64_t i = 0; i < kCommandsEach; ++i) {
      const uint64_t number = producer * kCommandsEach + i;
      payload[number] = number + 1;
      const uint64_t position = ring.claim();
      while (!ring.is_free(position)) std::this_thread::yield();
      ring.publish(position, numbered_command(number));
    }
  }

  // Calls body with each command, in the order of the ring.
  template <class Body>
  void run(Body&& body) {
    std::vector<std::thread> producers;
    for (int i = 0; i < kProducers; ++i) producers.emplace_back([this, i] { produce(i); });
    Consumer ring(memory.view());
    while (ring.position() < kProducers * kCommandsEach) {
      const Command* command = ring.peek();
      if (command == nullptr) {
        std::this_thread::yield();
        continue;
      }
      body(*command);
      ring.pop();
    }
    for (std::thread& producer : producers) producer.join();
    EXPECT_EQ(ring.peek(), nullptr) << "more came out than went in";
  }

  RingMemory memory{GetParam()};
  std::vector<uint64_t> payload = std::vector<uint64_t>(kProducers * kCommandsEach);
};

INSTANTIATE_TEST_SUITE_P(Capacities, RingRace, testing::Values(1u, 2u, 8u, 256u), testing::PrintToStringParamName());

TEST_P(RingRace, ConsumerNeverSeesHalfACommand) {
  uint64_t halves = 0;
  run([&](const Command& command) { halves += is_whole(command) ? 0 : 1; });
  EXPECT_EQ(halves, 0u);
}

TEST_P(RingRace, EveryCommandComesOutOnceAndInItsProducersOrder) {
  std::vector<uint64_t> next(kProducers);
  uint64_t wrong = 0;
  run([&](const Command& command) {
    const uint64_t producer = command.from_offset / kCommandsEach;
    wrong += command.from_offset % kCommandsEach == next[producer]++ ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(next, std::vector<uint64_t>(kProducers, kCommandsEach));
}

TEST_P(RingRace, WhatAProducerWroteBeforePublishingIsVisible) {
  uint64_t unseen = 0;
  run([&](const Command& command) { unseen += payload[command.from_offset] == command.from_offset + 1 ? 0 : 1; });
  EXPECT_EQ(unseen, 0u);
}

}  // namespace
}  // namespace mk::test
