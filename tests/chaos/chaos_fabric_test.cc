// SPDX-License-Identifier: MIT
// tests/chaos/chaos_fabric_test.cc — the chaos is real, and keeps a fabric's promises.
#include "tests/support/chaos_fabric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/support/recording_fabric.h"
#include "tests/support/ring_memory.h"

namespace mk::test {
namespace {

constexpr uint64_t kPuts = 200;

struct Outcome {
  std::vector<uint64_t> landed;  // tickets in the order of the inner fabric
  std::vector<uint64_t> told;    // tickets in the order of poll
  int full = 0;
  bool told_before_landed = false;
};

Outcome drive(uint64_t seed) {
  Outcome outcome;
  std::vector<PutRecord> log;
  ChaosFabric fabric(std::make_unique<RecordingFabric>(log), seed);
  for (uint64_t next = 0; outcome.told.size() < kPuts;) {
    if (next < kPuts && fabric.put(numbered_command(next), next) == PutResult::kSent) {
      ++next;
    } else if (next < kPuts) {
      ++outcome.full;
    }
    std::vector<uint64_t> completed;
    fabric.poll(completed);
    for (const uint64_t ticket : completed) {
      outcome.told_before_landed |=
          std::none_of(log.begin(), log.end(), [&](const PutRecord& r) { return r.ticket == ticket; });
      outcome.told.push_back(ticket);
    }
  }
  for (const PutRecord& record : log) {
    EXPECT_EQ(record.command.from_offset, record.ticket) << "a ticket changed its put";
    outcome.landed.push_back(record.ticket);
  }
  return outcome;
}

std::vector<uint64_t> in_order() {
  std::vector<uint64_t> tickets(kPuts);
  std::iota(tickets.begin(), tickets.end(), 0);
  return tickets;
}

class Chaos : public testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Seeds, Chaos, testing::Range<uint64_t>(0, 8));

TEST_P(Chaos, EveryPutLandsOnceAndIsToldOnceAfterIt) {
  Outcome outcome = drive(GetParam());
  std::sort(outcome.landed.begin(), outcome.landed.end());
  std::sort(outcome.told.begin(), outcome.told.end());
  EXPECT_EQ(outcome.landed, in_order());
  EXPECT_EQ(outcome.told, in_order());
  EXPECT_FALSE(outcome.told_before_landed);
}

TEST_P(Chaos, PutsLandAndAreToldOutOfOrderAndSomeAreTurnedAway) {
  const Outcome outcome = drive(GetParam());
  EXPECT_FALSE(std::is_sorted(outcome.landed.begin(), outcome.landed.end()));
  EXPECT_FALSE(std::is_sorted(outcome.told.begin(), outcome.told.end()));
  EXPECT_NE(outcome.landed, outcome.told);
  EXPECT_GT(outcome.full, 0);
}

TEST_P(Chaos, TheSeedDecidesEverything) {
  const Outcome first = drive(GetParam());
  EXPECT_EQ(first.landed, drive(GetParam()).landed);
  EXPECT_NE(first.landed, drive(GetParam() + 100).landed);
}

}  // namespace
}  // namespace mk::test
