// SPDX-License-Identifier: MIT
// tests/race/signal_race_test.cc — plain payload behind signals, between threads.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/bare_plan.h"

namespace mk::test {
namespace {

constexpr uint64_t kRounds = 2000;
constexpr uint32_t kFull = 0;   // at the reader: the window holds the round's value
constexpr uint32_t kTaken = 1;  // at the writer: it was read and may be overwritten

TEST(SignalRace, WhoSeesASignalSeesWhatWasCopiedBeforeIt) {
  BarePlan plan({.world = {1, 2}});
  std::vector<uint64_t> source(1);
  std::thread writer([&] {
    RankView view = plan.view(0);
    view.windows.inputs[0] = reinterpret_cast<const std::byte*>(source.data());
    cpu::CpuMachine machine(view, Post{0, 0, 1}, 0, false);
    for (uint64_t round = 1; round <= kRounds; ++round) {
      if (!machine.wait(kTaken, round - 1, -1)) return;
      source[0] = round;
      machine.copy({kFirstOperatorWindow, 1, 0}, {kInputWindow, 0, 0}, sizeof(uint64_t));
      machine.add({1, kFull}, 1);
    }
  });
  uint64_t stale = 0;
  cpu::CpuMachine reader = plan.machine(1);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    if (!reader.wait(kFull, round, -1)) break;
    stale += *plan.window<uint64_t>(1) == round ? 0 : 1;
    reader.add({0, kTaken}, 1);
  }
  writer.join();
  EXPECT_EQ(stale, 0u);
  EXPECT_TRUE(plan.plan().faults().empty());
}

TEST(SignalRace, NoAddIsLostWhenManyPayOneSignal) {
  constexpr int kRanks = 4;
  BarePlan plan({.world = {1, kRanks}});
  std::vector<std::thread> payers;
  for (int rank = 0; rank < kRanks; ++rank) {
    payers.emplace_back([&plan, rank] {
      cpu::CpuMachine machine = plan.machine(rank);
      for (uint64_t i = 0; i < kRounds; ++i) machine.add({0, kFull}, 3);
    });
  }
  cpu::CpuMachine reader = plan.machine(0);
  EXPECT_TRUE(reader.wait(kFull, 3 * kRounds * kRanks, -1));
  for (std::thread& payer : payers) payer.join();
}

TEST(SignalRace, NvlinkBytesOfAllWorkersAddUp) {
  constexpr int kWorkers = 4;
  BarePlan plan({.world = {1, 2}, .workers = kWorkers, .window_bytes = kWorkers * 16});
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([&plan, worker] {
      cpu::CpuMachine machine = plan.machine(0, worker);
      const uint64_t at = worker * 16;
      machine.copy({kFirstOperatorWindow, 1, at}, {kFirstOperatorWindow, 0, at}, 8);      // to the peer: counts
      machine.copy({kFirstOperatorWindow, 0, at + 8}, {kFirstOperatorWindow, 0, at}, 8);  // at home: does not
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(plan.plan().nvlink_bytes(0), kWorkers * 8u);
  EXPECT_EQ(plan.plan().nvlink_bytes(1), 0u);
}

}  // namespace
}  // namespace mk::test
