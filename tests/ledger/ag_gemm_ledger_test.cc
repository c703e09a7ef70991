// SPDX-License-Identifier: MIT
// tests/ledger/ag_gemm_ledger_test.cc — AllGather+GEMM pays what it awaits, and a single slip shows.
#include <gtest/gtest.h>

#include <tuple>

#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/dense/gemm_ledger.h"
#include "tests/support/layouts.h"
#include "tests/support/mutant_machine.h"

namespace mk::test {
namespace {

using ag_gemm_op::Layout;

constexpr int kLaunches = 3;

class AgGemmLedger : public testing::TestWithParam<WorldShape> {
 protected:
  // Calls body(layout, ledger) for every shape, tiling and split.
  template <class Body>
  void for_each_account(Body&& body) const {
    for_each_tiling([&](const Shape& shape, const ag_gemm_op::TileShape& tile) {
      for (const Roster& split : kSplits) {
        const Layout layout = layout_of(GetParam(), shape, tile, split);
        SCOPED_TRACE(name_of(shape) + ", tile of " + std::to_string(tile.m) + ", " +
                     std::to_string(layout.roles.total()) + " workers");
        body(layout, dense::account(layout, kLaunches));
      }
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, AgGemmLedger, testing::ValuesIn(kWorlds),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(AgGemmLedger, BalancesOverThreeLaunches) {
  for_each_account([](const Layout&, const ledger::Ledger& ledger) {
    EXPECT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
  });
}

TEST_P(AgGemmLedger, EverySignalOfAWorldWithPeersIsUsedExceptOwn) {
  for_each_account([](const Layout& layout, const ledger::Ledger& ledger) {
    // A rank is told by every peer of its node and of its rail that it is ready, and of the arrival of
    // every chunk that is not its own; and of every part that it passes on.
    const size_t size = layout.world.size();
    const size_t others = layout.world.nodes - 1;
    const size_t ready = (layout.world.ranks - 1) + others;
    const size_t landed = layout.world.ranks > 1 ? others * layout.num_parts() : 0;
    EXPECT_EQ(ledger.num_signals(), size * (ready + (size - 1) * layout.row_blocks + landed));
  });
}

TEST_P(AgGemmLedger, SendsEachShardOverEachRailOnceAndOverNvlinkOncePerPeer) {
  for_each_account([](const Layout& layout, const ledger::Ledger& ledger) {
    const uint64_t shard = kLaunches * static_cast<uint64_t>(layout.shard_bytes());
    const uint64_t other_nodes = layout.world.nodes - 1;
    const uint64_t peers = layout.world.ranks - 1;
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      EXPECT_EQ(ledger.network_bytes(rank), other_nodes * shard);
      EXPECT_EQ(ledger.nvlink_bytes(rank), peers * shard + other_nodes * peers * shard);
    }
  });
}

using WorldAndWrong = std::tuple<WorldShape, Wrong>;

class AgGemmMutant : public testing::TestWithParam<WorldAndWrong> {
 protected:
  ledger::Ledger account_with(Mutation& mutation) const {
    ledger::Ledger ledger(layout.world);
    dense::account(ledger, layout, kLaunches, [&](int rank, uint64_t epoch) {
      return MutantMachine(ledger, layout.world, rank, epoch, mutation);
    });
    return ledger;
  }

  const Wrong wrong = std::get<1>(GetParam());
  // Two chunks of three parts and two columns of tiles a shard, the last ones short, one part empty: several tiles
  // await one signal.
  const Layout layout =
      layout_of(std::get<0>(GetParam()), {33, 65, 3}, ag_gemm_op::kCpuTile, ag_gemm_op::roster(2, 2, 3));
};

std::string world_and_wrong(const testing::TestParamInfo<WorldAndWrong>& info) {
  return name_of(std::get<0>(info.param)) + "_" + name_of(std::get<1>(info.param));
}

const auto kWithPeers = testing::Values(WorldShape{1, 2}, WorldShape{1, 8}, WorldShape{2, 3}, WorldShape{4, 2});
const auto kWithNodes = testing::Values(WorldShape{2, 1}, WorldShape{2, 3}, WorldShape{3, 4}, WorldShape{4, 2});

INSTANTIATE_TEST_SUITE_P(Adds, AgGemmMutant,
                         testing::Combine(kWithPeers,
                                          testing::Values(Wrong::kAddDropped, Wrong::kAddDoubled, Wrong::kAddMisaimed)),
                         world_and_wrong);
INSTANTIATE_TEST_SUITE_P(Puts, AgGemmMutant,
                         testing::Combine(kWithNodes, testing::Values(Wrong::kPutDropped, Wrong::kPutDoubled,
                                                                      Wrong::kPutMisaimed, Wrong::kPutToNextNode,
                                                                      Wrong::kPutDataStray, Wrong::kPutFromInput)),
                         world_and_wrong);
INSTANTIATE_TEST_SUITE_P(Waits, AgGemmMutant,
                         testing::Combine(testing::Values(WorldShape{1, 2}, WorldShape{2, 1}, WorldShape{2, 3}),
                                          testing::Values(Wrong::kWaitForLater, Wrong::kWaitForEarlier)),
                         world_and_wrong);

TEST_P(AgGemmMutant, OneSlipAnywhereIsComplainedOf) {
  Mutation none{wrong};
  ASSERT_TRUE(account_with(none).complaints().empty());
  ASSERT_GT(none.calls, 0) << "there is nothing to do wrong in this world";
  for (int64_t victim = 0; victim < none.calls; ++victim) {
    Mutation mutation{wrong, victim};
    EXPECT_FALSE(account_with(mutation).complaints().empty()) << name_of(wrong) << " number " << victim << " passes";
  }
}

}  // namespace
}  // namespace mk::test
