// SPDX-License-Identifier: MIT
// tests/moe/moe_ledger_test.cc — dispatch of tokens on the ledger: signals balance whatever the routing, and only
// routed bytes move.
#include <gtest/gtest.h>

#include "ops/account.h"
#include "ops/moe/moe_dispatch_protocol.h"
#include "tests/support/moe_data.h"
#include "tests/support/moe_no_routing.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

using ledger::LedgerMachine;

// Nothing is computed.
struct NoBody : NoRouting {
  explicit NoBody(int64_t tokens) : num_tokens(tokens) {}
  int64_t num_tokens;
  int64_t tokens() const { return num_tokens; }
  void multiply(const moe::ExpertTile&) {}
  void take_origins(const moe::ExpertTile&) {}
};

constexpr moe::Cut kCut{
    .tile_m = 4, .tile_n = 4, .phase_tokens = 4, .slice_tokens = 3, .chunk_rows = 3, .bundle_rows = 2};

Roster roster(const WorldShape& world, int dispatch, int send, int compute) {
  return {{dispatch}, {world.nodes > 1 ? send : 0}, {compute}};
}

template <class M>
ledger::Ledger walk(const moe::Layout& layout, const MoeLaunches& launches) {
  ledger::Ledger ledger(layout.world, [&](uint64_t epoch, const Place& at) { return launches.value(epoch, at); });
  account_with(
      ledger, layout.world, layout.roles, launches.count(),
      [&](int rank, uint64_t epoch) { return M(ledger, layout.world, rank, epoch); },
      [&](auto& machine, const Post& post) {
        NoBody body(launches[machine.epoch()].rank(machine.rank()).tokens);
        moe::work(machine, layout, post, body);
      });
  return ledger;
}

class MoeLedger : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeLedger, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeLedger, BalancesAndMovesOnlyWhatIsRouted) {
  const WorldShape world = GetParam();
  for (const int local_experts : {1, 3}) {
    for (const int topk : {1, 2, 5}) {
      if (topk > local_experts * world.size()) continue;
      for (const auto& [dispatch, send, compute] : {std::tuple{1, 1, 1}, std::tuple{4, 3, 3}}) {
        moe::Problem problem = moe_problem(world, local_experts, topk, 9);
        if (compute > 1) {
          problem.shape.max_rows = 10;  // less than some launches bring
          problem.shape.overflow = MoeOverflow::kDrop;
        }
        const moe::Layout layout = moe::make_layout(problem, kCut, roster(world, dispatch, send, compute));
        const MoeLaunches launches(layout, problem, 5, seed_of(local_experts * 10 + topk, dispatch));
        const ledger::Ledger ledger = walk<LedgerMachine>(layout, launches);
        ASSERT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
        for (int rank = 0; rank < world.size(); ++rank) {
          uint64_t nvlink = 0;
          uint64_t network = 0;
          for (uint64_t epoch = 1; epoch <= 5; ++epoch) {
            nvlink += launches[epoch].nvlink_bytes(layout, rank);
            network += launches[epoch].network_bytes(layout, rank);
          }
          EXPECT_EQ(ledger.nvlink_bytes(rank), nvlink) << rank;
          EXPECT_EQ(ledger.network_bytes(rank), network) << rank;
        }
      }
    }
  }
}

// Machines that do one thing wrong.
struct TellsOfOneRowTooFew : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void add(const Signal& signal, uint64_t amount) { LedgerMachine::add(signal, amount > 1 ? amount - 1 : amount); }
};
struct AwaitsTheRowsOfTheLaunchBefore : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    return LedgerMachine::wait(signal, wanted > 1 ? wanted - 1 : wanted, subject);
  }
};
struct StampsForTheNextLaunch : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool put(Put put, int64_t subject) {
    if (put.stamp != 0) put.stamp += uint64_t{1} << 32;
    return LedgerMachine::put(put, subject);
  }
};
struct ForgetsToPassCountsOn : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void stamp(const Signal& signal, uint64_t stamp) {
    const auto ranks = static_cast<uint32_t>(world().size());
    const bool is_counted = signal.index < 2 * ranks;
    if (is_counted && static_cast<int>(signal.index % ranks) != rank()) return;
    LedgerMachine::stamp(signal, stamp);
  }
};

template <class M>
bool is_found() {
  const WorldShape world{2, 3};
  const moe::Problem problem = moe_problem(world, 2, 3, 9);
  const moe::Layout layout = moe::make_layout(problem, kCut, roster(world, 1, 1, 2));
  const Routing uniform = Routing::kUniform;
  return !walk<M>(layout, MoeLaunches(layout, problem, 3, 7, &uniform)).complaints().empty();
}

TEST(MoeLedgerMutant, IsFound) {
  EXPECT_FALSE(is_found<LedgerMachine>());
  EXPECT_TRUE(is_found<TellsOfOneRowTooFew>());
  EXPECT_TRUE(is_found<AwaitsTheRowsOfTheLaunchBefore>());
  EXPECT_TRUE(is_found<StampsForTheNextLaunch>());
  EXPECT_TRUE(is_found<ForgetsToPassCountsOn>());
}

// A launch that is refused moves no rows, and the next one is right.
TEST(MoeLedgerRefusal, LeavesTheAccountsInBalance) {
  const WorldShape world{2, 2};
  const moe::Problem problem = moe_problem(world, 2, 2, 9, 12);  // some launches fit, some do not
  const moe::Layout layout = moe::make_layout(problem, kCut, roster(world, 1, 1, 1));
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const ledger::Ledger ledger = walk<LedgerMachine>(layout, MoeLaunches(layout, problem, 6, seed));
    EXPECT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
  }
}

}  // namespace
}  // namespace mk::test
