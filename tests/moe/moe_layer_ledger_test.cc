// SPDX-License-Identifier: MIT
// tests/moe/moe_layer_ledger_test.cc — both passes of a layer of experts on the ledger: signals balance whatever the
// routing, and only what is routed moves.
#include <gtest/gtest.h>

#include "ops/account.h"
#include "ops/moe/moe_backward_protocol.h"
#include "ops/moe/moe_backward_targets.h"
#include "tests/support/moe_layer_data.h"
#include "tests/support/moe_no_routing.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

using ledger::LedgerMachine;

constexpr moe::LayerCut kCut{{.tile_m = 4,
                              .tile_n = 4,
                              .phase_tokens = 3,
                              .slice_tokens = 2,
                              .early_eighths = 4,
                              .chunk_rows = 2,
                              .bundle_rows = 2},
                             2,
                             5};

// Launches, and what lies where values belong: what MoeLaunches says, and the layer's own.
class LayerLaunches {
 public:
  LayerLaunches(const moe::LayerLayout& layout, const moe::LayerProblem& problem, int count, uint64_t seed)
      : layout_(layout), dispatch_(layout, problem.dispatch(), count, seed) {
    std::vector<std::vector<uint32_t>> due(problem.world.size(),
                                           std::vector<uint32_t>(layout.due_back_bytes() / moe::kWord));
    for (int epoch = 1; epoch <= count; ++epoch) {
      for (int rank = 0; rank < problem.world.size(); ++rank) {
        const auto counts_of = [&](int of) { return dispatch_.counts(epoch, of).data(); };
        const bool is_refused = dispatch_.value(epoch, layout.plan_at(rank, layout.status_word())) != 0;
        if (!is_refused) add_due_back(layout, rank, counts_of, due[rank].data());
      }
      due_.push_back(due);
    }
  }

  const MoeLaunchData& operator[](uint64_t epoch) const { return dispatch_[epoch]; }
  int count() const { return dispatch_.count(); }

  uint32_t value(uint64_t epoch, const Place& place) const {
    const uint64_t word = place.offset / moe::kWord;
    const MoeLaunchData& data = dispatch_[epoch];
    const auto node_of_slot = [&](uint64_t slot) {
      const int node = static_cast<int>(slot);
      return node < layout_.world.node_of(place.rank) ? node : node + 1;
    };
    switch (place.window) {
      case moe::kReturnPlanWindow: return due_[epoch - 1][place.rank][word];
      case moe::kOriginsWindow: return origin(data, place.rank, word / 4, word % 4);
      case moe::kPlacesWindow: {
        const auto node = static_cast<int>(word / layout_.max_pairs());
        const int source = layout_.world.rank_at(node, layout_.world.local_of(place.rank));
        return row_of(data, source, static_cast<int64_t>(word % layout_.max_pairs()));
      }
      case moe::kCrossedWindow: {
        const std::vector<int64_t> crossing = data.crossing(place.rank, node_of_slot(word / layout_.max_tokens));
        const auto token = static_cast<int64_t>(word % layout_.max_tokens);
        return static_cast<uint32_t>(std::ranges::find(crossing, token) - crossing.begin());
      }
      case moe::kRecordsInWindow: {
        const uint64_t words = layout_.record_bytes() / moe::kWord;
        const int node = node_of_slot(word / words / layout_.max_tokens);
        const int peer = layout_.world.rank_at(node, layout_.world.local_of(place.rank));
        const int64_t token = data.crossing(peer, layout_.world.node_of(place.rank))[word / words % layout_.max_tokens];
        if (word % words == 0) return static_cast<uint32_t>(token);
        return static_cast<uint32_t>(data.id_of(peer, token * layout_.topk + static_cast<int64_t>(word % words) - 1));
      }
      default: return dispatch_.value(epoch, place);
    }
  }

 private:
  uint32_t origin(const MoeLaunchData& data, int rank, uint64_t row, uint64_t word) const {
    for (int i = 0; i < layout_.local_experts(); ++i) {
      const std::vector<MoeRow> rows = data.rows_of(rank * layout_.local_experts() + i);
      if (row < rows.size()) return static_cast<uint32_t>(word == 1 ? rows[row].rank : rows[row].pair);
      row -= rows.size();
    }
    return 0;
  }

  // Of a pair at its expert's rank.
  uint32_t row_of(const MoeLaunchData& data, int rank, int64_t pair) const {
    const auto expert = static_cast<int>(data.id_of(rank, pair));
    uint32_t row = 0;
    for (int before = layout_.rank_of_expert(expert) * layout_.local_experts(); before < expert; ++before) {
      row += static_cast<uint32_t>(data.rows_of(before).size());
    }
    for (const MoeRow& one : data.rows_of(expert)) {
      if (one.rank == rank && one.pair == pair) break;
      ++row;
    }
    return row;
  }

  const moe::LayerLayout& layout_;
  MoeLaunches dispatch_;
  std::vector<std::vector<std::vector<uint32_t>>> due_;  // [launch][rank]
};

// Nothing is computed.
struct NoBody : NoRouting {
  NoBody(const MoeLaunchData& of, int own) : data(of), rank(own) {}
  const MoeLaunchData& data;
  int rank;
  int64_t tokens() const { return data.rank(rank).tokens; }
  int expert_of(int64_t token, int slot) const {
    return static_cast<int>(data.id_of(rank, token * data.problem().shape.topk + slot));
  }
  void activate(const moe::LayerTile&) {}
  void multiply(const moe::LayerTile&) {}
  void multiply(const moe::WeightTile&) {}
  template <class ToAt>
  void keep_places(int64_t, int, const ToAt&) {}
  void make_scores(const moe::LayerTile&) {}
  void clear_sum() {}
  void add(const Place&) {}
  void take_score(int, const Place&) {}
  void store_sum(const Place&) {}
  void write_out(int64_t) {}
};

template <class M, class L>
ledger::Ledger walk(const L& layout, const LayerLaunches& launches) {
  ledger::Ledger ledger(layout.world, [&](uint64_t epoch, const Place& at) { return launches.value(epoch, at); });
  account_with(
      ledger, layout.world, layout.roles, launches.count(),
      [&](int rank, uint64_t epoch) { return M(ledger, layout.world, rank, epoch); },
      [&](auto& machine, const Post& post) {
        NoBody body(launches[machine.epoch()], machine.rank());
        moe::work(machine, layout, post, body);
      });
  return ledger;
}

class MoeLayerLedger : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeLayerLedger, testing::ValuesIn(kWorlds),
                         case_name<testing::TestParamInfo<WorldShape>>);

// make: make_layer_layout or make_backward_layout.
template <class Make>
void balances(const WorldShape& world, const Make& make) {
  for (const int topk : {1, 3}) {
    if (topk > 2 * world.size()) continue;
    for (const auto& [dispatch, send, compute] : {std::tuple{1, 1, 1}, std::tuple{4, 3, 3}}) {
      moe::LayerProblem problem = with_shared(layer_problem(world, 2, topk, 7), topk / 2);
      if (compute > 1) {
        problem.shape.max_rows = problem.shape.shared * 7 + 6;  // less than some launches bring
        problem.shape.overflow = MoeOverflow::kDrop;
      }
      const Roster roles{{dispatch}, {world.nodes > 1 ? send : 0}, {compute}};
      const auto layout = make(problem, kCut, roles);
      const LayerLaunches launches(layout, problem, 4, seed_of(topk, dispatch));
      const ledger::Ledger ledger = walk<LedgerMachine>(layout, launches);
      ASSERT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
      for (int rank = 0; rank < world.size(); ++rank) {
        uint64_t nvlink = 0;
        uint64_t network = 0;
        for (int epoch = 1; epoch <= launches.count(); ++epoch) {
          nvlink += nvlink_bytes(launches[epoch], layout, rank);
          network += network_bytes(launches[epoch], layout, rank);
        }
        EXPECT_EQ(ledger.nvlink_bytes(rank), nvlink) << rank;
        EXPECT_EQ(ledger.network_bytes(rank), network) << rank;
      }
    }
  }
}

TEST_P(MoeLayerLedger, ForwardBalancesAndMovesOnlyWhatIsRouted) { balances(GetParam(), moe::make_layer_layout); }
TEST_P(MoeLayerLedger, BackwardBalancesAndMovesOnlyWhatIsRouted) { balances(GetParam(), moe::make_backward_layout); }

struct ReturnsOneRowTooFew : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void add(const Signal& signal, uint64_t amount) { LedgerMachine::add(signal, amount > 1 ? amount - 1 : amount); }
};
struct AwaitsTooLittle : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    return LedgerMachine::wait(signal, wanted > 2 ? wanted - 1 : wanted, subject);
  }
};
struct StampsForTheNextLaunch : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool put(Put put, int64_t subject) {
    if (put.stamp != 0) put.stamp += uint64_t{1} << 32;
    return LedgerMachine::put(put, subject);
  }
};

template <class M>
bool is_found() {
  const moe::LayerProblem problem = layer_problem({2, 3}, 2, 3, 9);
  const Roster roles{{1}, {1}, {2}};
  const auto complains = [&](const auto& layout) {
    return !walk<M>(layout, LayerLaunches(layout, problem, 3, 7)).complaints().empty();
  };
  const bool forward = complains(moe::make_layer_layout(problem, kCut, roles));
  EXPECT_EQ(complains(moe::make_backward_layout(problem, kCut, roles)), forward);
  return forward;
}

TEST(MoeLayerLedgerMutant, IsFound) {
  EXPECT_FALSE(is_found<LedgerMachine>());
  EXPECT_TRUE(is_found<ReturnsOneRowTooFew>());
  EXPECT_TRUE(is_found<AwaitsTooLittle>());
  EXPECT_TRUE(is_found<StampsForTheNextLaunch>());
}

}  // namespace
}  // namespace mk::test
