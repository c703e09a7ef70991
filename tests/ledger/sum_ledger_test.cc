// SPDX-License-Identifier: MIT
// tests/ledger/sum_ledger_test.cc — operators that sum over ranks pay what they await, and a single slip shows.
#include <gtest/gtest.h>

#include <tuple>

#include "ops/dense/gemm_ledger.h"
#include "tests/support/mutant_machine.h"
#include "tests/support/sum_layouts.h"
#include "tests/support/sum_traffic.h"

namespace mk::test {
namespace {

constexpr int kLaunches = 3;

class SumLedger : public testing::TestWithParam<std::tuple<SumOp, WorldShape>> {
 protected:
  const SumOp op = std::get<0>(GetParam());
  const WorldShape world = std::get<1>(GetParam());

  // Calls body(layout, shape) for every shape, tiling and split.
  template <class Body>
  void for_each_layout(Body&& body) const {
    for_each_cut(
        [&](const Cut& cut) { with_layout(op, world, cut, [&](const auto& layout) { body(layout, cut.shape); }); });
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, SumLedger, testing::Combine(testing::ValuesIn(kSumOps), testing::ValuesIn(kWorlds)),
                         joined_names);

TEST_P(SumLedger, BalancesOverThreeLaunches) {
  for_each_layout([](const auto& layout, const Shape&) {
    const ledger::Ledger ledger = dense::account(layout, kLaunches);
    EXPECT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
  });
}

TEST_P(SumLedger, EverySignalIsUsedExceptARanksOwn) {
  for_each_layout([&](const auto& layout, const Shape&) {
    const size_t used = dense::account(layout, 1).num_signals();
    EXPECT_EQ(used, world.size() == 1 ? 0 : world.size() * signals_used(layout));
  });
}

TEST_P(SumLedger, MovesTheBytesOfTheFormula) {
  for_each_layout([&](const auto& layout, const Shape& shape) {
    const ledger::Ledger ledger = dense::account(layout, kLaunches);
    const Traffic expected = traffic_of(op, world, shape, DType::kBf16);
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ(ledger.nvlink_bytes(rank), kLaunches * expected.nvlink_bytes);
      EXPECT_EQ(ledger.network_bytes(rank), kLaunches * expected.network_bytes);
    }
  });
}

class SumMutant : public testing::TestWithParam<std::tuple<SumOp, WorldShape, Wrong>> {
 protected:
  template <class Layout>
  static ledger::Ledger account_with(const Layout& layout, Mutation& mutation) {
    ledger::Ledger ledger(layout.world);
    dense::account(ledger, layout, kLaunches, [&](int rank, uint64_t epoch) {
      return MutantMachine(ledger, layout.world, rank, epoch, mutation);
    });
    return ledger;
  }
};

const auto kWithPeers = testing::Values(WorldShape{1, 2}, WorldShape{1, 4}, WorldShape{2, 3});
const auto kWithNodes = testing::Values(WorldShape{2, 1}, WorldShape{2, 3}, WorldShape{3, 2});

INSTANTIATE_TEST_SUITE_P(Adds, SumMutant,
                         testing::Combine(testing::ValuesIn(kSumOps), kWithPeers,
                                          testing::Values(Wrong::kAddDropped, Wrong::kAddDoubled, Wrong::kAddMisaimed)),
                         joined_names);
INSTANTIATE_TEST_SUITE_P(Puts, SumMutant,
                         testing::Combine(testing::ValuesIn(kSumOps), kWithNodes,
                                          testing::Values(Wrong::kPutDropped, Wrong::kPutDoubled, Wrong::kPutMisaimed,
                                                          Wrong::kPutDataStray, Wrong::kPutFromInput,
                                                          Wrong::kStoreToNextNode, Wrong::kLoadFromNextNode)),
                         joined_names);
INSTANTIATE_TEST_SUITE_P(Waits, SumMutant,
                         testing::Combine(testing::ValuesIn(kSumOps),
                                          testing::Values(WorldShape{1, 2}, WorldShape{2, 1}, WorldShape{2, 2}),
                                          testing::Values(Wrong::kWaitForLater, Wrong::kWaitForEarlier)),
                         joined_names);

TEST_P(SumMutant, OneSlipAnywhereIsComplainedOf) {
  const auto& [op, world, wrong] = GetParam();
  with_layout(op, world, {.split = {{"compute", 2}, {"intra", 2}, {"reduce", 2}}}, [wrong = wrong](const auto& layout) {
    Mutation none{wrong};
    ASSERT_TRUE(account_with(layout, none).complaints().empty());
    ASSERT_GT(none.calls, 0) << "there is nothing to do wrong in this world";
    for (int64_t victim = 0; victim < none.calls; ++victim) {
      Mutation mutation{wrong, victim};
      EXPECT_FALSE(account_with(layout, mutation).complaints().empty())
          << name_of(wrong) << " number " << victim << " passes";
    }
  });
}

}  // namespace
}  // namespace mk::test
