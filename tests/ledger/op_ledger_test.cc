// SPDX-License-Identifier: MIT
// tests/ledger/op_ledger_test.cc — every operator pays what it awaits, and a single slip shows.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/support/mutant_machine.h"
#include "tests/support/op_layouts.h"

namespace mk::test {
namespace {

constexpr int kLaunches = 3;

class OpLedger : public testing::TestWithParam<std::tuple<Op, WorldShape>> {
 protected:
  const Op op = std::get<0>(GetParam());
  const WorldShape world = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Worlds, OpLedger, testing::Combine(testing::ValuesIn(kOps), testing::ValuesIn(kWorlds)),
                         joined_names);

TEST_P(OpLedger, BalancesOverThreeLaunches) {
  for_each_layout(op, world, [](const AnyLayout& layout, const OpCut&) {
    const ledger::Ledger ledger = layout.account(kLaunches);
    EXPECT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
  });
}

TEST_P(OpLedger, EverySignalIsUsedExceptARanksOwn) {
  for_each_layout(op, world, [](const AnyLayout& layout, const OpCut&) {
    EXPECT_EQ(layout.account(kLaunches).num_signals(), layout.signals_used());
  });
}

TEST_P(OpLedger, MovesTheBytesOfTheFormula) {
  for_each_layout(op, world, [&](const AnyLayout& layout, const OpCut& cut) {
    const ledger::Ledger ledger = layout.account(kLaunches);
    const Traffic expected = row_of(op).expected_traffic(world, {cut.shape, cut.dtype});
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ(ledger.nvlink_bytes(rank), kLaunches * expected.nvlink_bytes);
      EXPECT_EQ(ledger.network_bytes(rank), kLaunches * expected.network_bytes);
    }
  });
}

using Ops = std::vector<Op>;
using Worlds = std::vector<WorldShape>;

const Ops kAll(kOps.begin(), kOps.end());
const Ops kSums{Op::kGemmRs, Op::kGemmAr, Op::kGemmArOneShot};  // they store into each other's windows

const Worlds kWithPeers{{1, 2}, {1, 4}, {2, 3}};
const Worlds kWithNodes{{2, 1}, {2, 3}, {3, 2}};
const Worlds kSmall{{1, 2}, {2, 1}, {2, 2}, {2, 3}};

// What can be done wrong, by whom, and where there is something to do wrong.
struct MutantRow {
  Wrong wrong;
  Ops ops;
  Worlds worlds;
  Worlds larger;  // for the one that is walked through soonest
};

const MutantRow kMutants[] = {
    {Wrong::kAddDropped, kAll, kWithPeers, {{1, 8}, {4, 2}}},
    {Wrong::kAddDoubled, kAll, kWithPeers, {{1, 8}, {4, 2}}},
    {Wrong::kAddMisaimed, kAll, kWithPeers, {{1, 8}, {4, 2}}},
    {Wrong::kPutDropped, kAll, kWithNodes, {{3, 4}, {4, 2}}},
    {Wrong::kPutDoubled, kAll, kWithNodes, {{3, 4}, {4, 2}}},
    {Wrong::kPutMisaimed, kAll, kWithNodes, {{3, 4}, {4, 2}}},
    {Wrong::kPutToNextNode, kAll, kWithNodes, {{3, 4}, {4, 2}}},
    {Wrong::kPutDataStray, kAll, kWithNodes, {{3, 4}, {4, 2}}},
    {Wrong::kPutFromInput, kAll, kWithNodes, {{3, 4}, {4, 2}}},
    {Wrong::kWaitForLater, kAll, kSmall, {}},
    {Wrong::kWaitForEarlier, kAll, kSmall, {}},
    {Wrong::kStoreToNextNode, kSums, kWithNodes, {}},
    {Wrong::kLoadFromNextNode, kAll, kWithNodes, {}},
};

using MutantCase = std::tuple<Op, WorldShape, Wrong>;

std::vector<MutantCase> mutant_cases() {
  std::vector<MutantCase> cases;
  for (const MutantRow& row : kMutants) {
    for (const Op op : row.ops) {
      for (const WorldShape& world : row.worlds) cases.emplace_back(op, world, row.wrong);
    }
    for (const WorldShape& world : row.larger) cases.emplace_back(Op::kAgGemm, world, row.wrong);
  }
  return cases;
}

class OpMutant : public testing::TestWithParam<MutantCase> {};

INSTANTIATE_TEST_SUITE_P(All, OpMutant, testing::ValuesIn(mutant_cases()), joined_names);

TEST_P(OpMutant, OneSlipAnywhereIsComplainedOf) {
  const auto& [op, world, wrong] = GetParam();
  const auto layout = row_of(op).layout(world, {.split = row_of(op).few_workers()});
  Mutation none{wrong};
  ASSERT_TRUE(layout->account(kLaunches, none).complaints().empty());
  ASSERT_GT(none.calls, 0) << "there is nothing to do wrong in this world";
  for (int64_t victim = 0; victim < none.calls; ++victim) {
    Mutation mutation{wrong, victim};
    EXPECT_FALSE(layout->account(kLaunches, mutation).complaints().empty())
        << name_of(wrong) << " number " << victim << " passes";
  }
}

}  // namespace
}  // namespace mk::test
