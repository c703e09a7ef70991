// SPDX-License-Identifier: MIT
// tests/attention/attention_ledger_test.cc — attention over many ranks on the ledger: signals balance for every mask
// and order, and only rows that somebody needs move, to each node once.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/account.h"
#include "ops/attention/ring_attention_protocol.h"
#include "tests/attention/attention_cases.h"
#include "tests/attention/strided_heads.h"

namespace mk::test {
namespace {

using attention::Layout;
using ledger::LedgerMachine;

// Nothing is computed.
struct NoAttention {
  void begin(const attention::QueryTile&) {}
  void resume(const attention::QueryTile&) {}
  void attend(const attention::QueryTile&, int, const attention::Segment&) {}
  void pause(const attention::QueryTile&) {}
  void finish(const attention::QueryTile&) {}
};

template <class M>
ledger::Ledger walk(const Layout& layout, int launches) {
  ledger::Ledger ledger(layout.world);
  account_with(
      ledger, layout.world, layout.roles, launches,
      [&](int rank, uint64_t epoch) { return M(ledger, layout.world, rank, epoch); },
      [&](auto& machine, const Post& post) {
        NoAttention body;
        attention::work(machine, layout, post, body);
      });
  return ledger;
}

std::vector<WorldShape> worlds() {
  std::vector<WorldShape> all(kWorlds.begin(), kWorlds.end());
  all.push_back({3, 2});
  all.push_back({5, 1});
  return all;
}

class AttentionLedger : public testing::TestWithParam<std::tuple<WorldShape, AttentionForm>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AttentionLedger,
                         testing::Combine(testing::ValuesIn(worlds()), testing::ValuesIn(attention_forms())),
                         joined_names);

// Rows that a rank needs of another, found position by position.
int64_t rows_seen(const Layout& layout, const AttentionForm& form, std::span<const int> queries, int source) {
  const int64_t seq = layout.rows * layout.world.size();
  int64_t rows = 0;
  for (int piece = 0; piece < layout.pieces(); ++piece) {
    const Range keys = layout.positions_of(source, piece);
    int64_t of_piece = 0;
    for (int64_t key = keys.first; key < keys.first + keys.count; ++key) {
      const bool is_seen = std::ranges::any_of(queries, [&](int rank) {
        for (int own = 0; own < layout.pieces(); ++own) {
          const Range positions = layout.positions_of(rank, own);
          for (int64_t q = positions.first; q < positions.first + positions.count; ++q) {
            if (sees(form, seq, q, key)) return true;
          }
        }
        return false;
      });
      of_piece += is_seen;
    }
    // Of two pieces of packed sequences with a full mask, all rows or none.
    const bool is_whole = form.packing != 0 && form.mask.kind == MaskKind::kFull && layout.pieces() == 2;
    rows += is_whole && of_piece > 0 ? keys.count : of_piece;
  }
  return rows;
}

TEST_P(AttentionLedger, BalancesAndMovesOnlyWhatIsNeeded) {
  const auto& [world, form] = GetParam();
  for (const int64_t rows : {2, 10}) {
    for (const auto& [intra, send, keep, compute, slots] :
         {std::tuple{1, 1, 1, 1, 1}, std::tuple{3, 2, 2, 3, 2}, std::tuple{2, 3, 1, 2, 3}}) {
      const attention::Problem problem = attention_problem(world, form, rows);
      const auto layout = attention::make_layout(
          problem, {.tile_rows = 4, .part_bytes = 72, .chunks_of_piece = 2, .heads_together = 3, .slots = slots},
          attention_roster(world, intra, send, keep, compute));
      const ledger::Ledger ledger = walk<LedgerMachine>(layout, 3);
      ASSERT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
      const uint64_t row_bytes = 2 * layout.batch * layout.key_row_bytes();
      for (int rank = 0; rank < world.size(); ++rank) {
        uint64_t in_node = 0;
        uint64_t across = 0;
        for (int node = 0; node < world.nodes; ++node) {
          const int source = world.rank_at(node, world.local_of(rank));
          std::vector<int> all;
          for (int local = 0; local < world.ranks; ++local) {
            const int peer = world.rank_at(world.node_of(rank), local);
            if (peer != rank) in_node += rows_seen(layout, form, std::vector{peer}, source);
            all.push_back(world.rank_at(node, local));
          }
          if (node != world.node_of(rank)) across += rows_seen(layout, form, all, rank);
        }
        EXPECT_EQ(ledger.nvlink_bytes(rank), 3 * in_node * row_bytes) << rank;
        EXPECT_EQ(ledger.network_bytes(rank), 3 * across * row_bytes) << rank;
        EXPECT_EQ(attention::nvlink_bytes(layout, rank), in_node * row_bytes) << rank;
        EXPECT_EQ(attention::network_bytes(layout, rank), across * row_bytes) << rank;
      }
    }
  }
}

// Gaps are left behind: what is sent is what would be sent without them.
TEST(AttentionGaps, DoNotTravel) {
  for (const WorldShape& world : worlds()) {
    for (const AttentionForm& form : attention_forms()) {
      const attention::Problem problem = attention_problem(world, form, 10, 2, 4, 2);
      for (const HeadsLie lie : kHeadsLies) {
        auto layout = attention::make_layout(problem, {.tile_rows = 4, .part_bytes = 144, .chunks_of_piece = 2},
                                             attention_roster(world, 2, 2, 1, 2));
        lay_keys(lie, layout);
        const ledger::Ledger ledger = walk<LedgerMachine>(layout, 2);
        ASSERT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
        for (int rank = 0; rank < world.size(); ++rank) {
          EXPECT_EQ(ledger.nvlink_bytes(rank), 2 * attention::nvlink_bytes(layout, rank)) << name_of(lie);
          EXPECT_EQ(ledger.network_bytes(rank), 2 * attention::network_bytes(layout, rank)) << name_of(lie);
        }
      }
    }
  }
}

// What a worker copies out of a rank's keys, in the order of the slot.
struct CopiesOfKeys : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void copy(const Place& to, const Place& from, uint64_t bytes) {
    LedgerMachine::copy(to, from, bytes);
    if (from.window == attention::kKeysInput && rank() == 0) all().push_back({from.offset, bytes});
  }
  static std::vector<std::pair<uint64_t, uint64_t>>& all() {
    static std::vector<std::pair<uint64_t, uint64_t>> copies;
    return copies;
  }
};

// One rank gives another all its rows, three of them at a time: four bytes an element, three elements a head.
TEST(AttentionGaps, CopiesAreAsLargeAsGapsAllow) {
  using Copies = std::vector<std::pair<uint64_t, uint64_t>>;
  const auto copies = [](const HeadStrides& strides) {
    auto layout = attention::make_layout(attention_problem({1, 2}, {}, 3, 1, 2, 2),
                                         {.tile_rows = 4, .part_bytes = 144, .chunks_of_piece = 1},
                                         attention_roster({1, 2}, 1, 0, 0, 1));
    layout.own_keys = strides;
    CopiesOfKeys::all().clear();
    EXPECT_TRUE(walk<CopiesOfKeys>(layout, 1).complaints().empty());
    return CopiesOfKeys::all();
  };
  EXPECT_EQ(copies({18, 6, 3}), (Copies{{0, 72}}));
  EXPECT_EQ(copies({54, 18, 3}), (Copies{{0, 24}, {72, 24}, {144, 24}}));
  EXPECT_EQ(copies({18, 3, 9}), (Copies{{0, 12}, {36, 12}, {12, 12}, {48, 12}, {24, 12}, {60, 12}}));
}

// Machines that do one thing wrong.
struct TellsOfKeysOnly : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void add(const Signal& signal, uint64_t amount) {
    LedgerMachine::add(signal, amount == Layout::kHalves ? 1 : amount);
  }
};
struct DropsARoom : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void add(const Signal& signal, uint64_t amount) {
    if (signal.rank == rank() || amount != 1 || told++ > 0) LedgerMachine::add(signal, amount);
  }
  int told = 0;
};
struct PutsHalfOfAChunk : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool put(const Put& put, int64_t subject) { return is_odd++ % 2 == 1 || LedgerMachine::put(put, subject); }
  int is_odd = 0;
};

template <class M>
bool is_found(const WorldShape& world) {
  const attention::Problem problem = attention_problem(world, {{MaskKind::kCausal}, SequenceOrder::kZigzag}, 10);
  const Layout layout = attention::make_layout(problem, {.tile_rows = 4, .part_bytes = 72, .chunks_of_piece = 2},
                                               attention_roster(world, 1, 1, 1, 2));
  return !walk<M>(layout, 3).complaints().empty();
}

TEST(AttentionLedgerMutant, IsFound) {
  EXPECT_TRUE(is_found<TellsOfKeysOnly>({1, 4}));
  EXPECT_TRUE(is_found<DropsARoom>({1, 4}));
  EXPECT_TRUE(is_found<DropsARoom>({2, 2}));
  EXPECT_TRUE(is_found<PutsHalfOfAChunk>({3, 1}));
  EXPECT_TRUE(is_found<PutsHalfOfAChunk>({2, 2}));
}

// Of keys that tiles see: as many for each rank, to within one tile's rows with every key.
TEST(AttentionBalance, ZigzagGivesEveryRankAsMuchToDo) {
  for (const WorldShape& world : worlds()) {
    for (const int64_t rows : {64, 250}) {
      const attention::Problem problem = attention_problem(world, {{MaskKind::kCausal}, SequenceOrder::kZigzag}, rows);
      const Layout layout = attention::make_layout(problem, {.tile_rows = 16}, attention_roster(world, 1, 1, 1, 2));
      std::vector<int64_t> work;
      for (int rank = 0; rank < world.size(); ++rank) {
        int64_t keys = 0;
        for (int64_t number = 0; number < layout.num_tiles(rank); ++number) {
          for (int source = 0; source < world.size(); ++source) {
            for (int piece = 0; piece < 2; ++piece) {
              const attention::QueryTile tile = layout.tile_at(rank, number);
              keys += layout.segment(tile, source, piece).rows.count * tile.rows.count;
            }
          }
        }
        work.push_back(keys);
      }
      const auto [least, most] = std::ranges::minmax(work);
      EXPECT_LE(most - least, layout.tile_rows * rows * world.size()) << name_of(world) << " " << rows;
    }
  }
}

// Slots, staged rows and state: nothing of them grows with the world.
TEST(AttentionMemory, GrowsWithTheRowsOfARankAndNotWithTheWorld) {
  const AttentionForm form{{MaskKind::kCausal}, SequenceOrder::kZigzag};
  const auto bytes = [&](const WorldShape& world, int64_t rows) {
    const Layout layout =
        attention::make_layout(attention_problem(world, form, rows), {}, attention_roster(world, 1, 1, 1, 2));
    uint64_t sum = 0;
    for (const uint64_t window : window_bytes(layout)) sum += window;
    return sum;
  };
  const uint64_t keys_and_values = 2 * 2 * 64 * 1 * 3 * 4;  // of a rank: batch, rows, heads, dim, bytes
  const uint64_t state = 2 * 2 * 64 * (3 + 8) * 4;          // batch, heads, rows, results and eight words, bytes
  EXPECT_EQ(bytes({1, 1}, 64), 0u);
  EXPECT_EQ(bytes({1, 8}, 64), 2 * keys_and_values + state);
  EXPECT_EQ(bytes({8, 1}, 64), 3 * keys_and_values + state);
  EXPECT_EQ(bytes({4, 8}, 64), 5 * keys_and_values + state);
  EXPECT_EQ(bytes({8, 16}, 64), 5 * keys_and_values + state);
}

}  // namespace
}  // namespace mk::test
