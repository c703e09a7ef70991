// SPDX-License-Identifier: MIT
// tests/attention/attention_backward_ledger_test.cc — gradients of attention on the ledger: signals balance for every
// mask and order, every turn is taken once, and gradients move only where there are some, from each node once.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "ops/account.h"
#include "ops/attention/ring_attention_backward_protocol.h"
#include "tests/attention/attention_cases.h"
#include "tests/attention/strided_heads.h"

namespace mk::test {
namespace {

using attention::BackwardLayout;
using attention::Half;
using attention::KeyTile;
using attention::QueryBlock;
using ledger::LedgerMachine;

// Nothing is computed.
struct NoGradients {
  void note(const QueryBlock&) {}
  void begin(const KeyTile&, int) {}
  void attend(const QueryBlock&) {}
  void add_queries(const QueryBlock&, int) {}
  void end(const KeyTile&, int) {}
  void finish_queries(const QueryBlock&) {}
  void add_keys(const Place&, const Place&, uint64_t) {}
  void finish_keys(Half, const attention::HeadRow&, int64_t) {}
  void finish_sink(int) {}
};

template <class M>
ledger::Ledger walk(const BackwardLayout& layout, int launches) {
  ledger::Ledger ledger(layout.world);
  account_with(
      ledger, layout.world, layout.roles, launches,
      [&](int rank, uint64_t epoch) { return M(ledger, layout.world, rank, epoch); },
      [&](auto& machine, const Post& post) {
        NoGradients body;
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

class AttentionBackwardLedger : public testing::TestWithParam<std::tuple<WorldShape, AttentionForm>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AttentionBackwardLedger,
                         testing::Combine(testing::ValuesIn(worlds()), testing::ValuesIn(attention_forms())),
                         joined_names);

// Keys of `source` that queries of some ranks see, found position by position.
int64_t keys_seen(const BackwardLayout& layout, const AttentionForm& form, std::span<const int> ranks, int source) {
  const auto sees = [&](int rank, int64_t key) {
    for (int piece = 0; piece < layout.pieces(); ++piece) {
      const Range queries = layout.positions_of(rank, piece);
      for (int64_t q = queries.first; q < queries.first + queries.count; ++q) {
        if (mk::test::sees(form, layout.rows * layout.world.size(), q, key)) return true;
      }
    }
    return false;
  };
  int64_t seen = 0;
  for (int piece = 0; piece < layout.pieces(); ++piece) {
    const Range keys = layout.positions_of(source, piece);
    int64_t of_piece = 0;
    for (int64_t key = keys.first; key < keys.first + keys.count; ++key) {
      of_piece += std::ranges::any_of(ranks, [&](int rank) { return sees(rank, key); });
    }
    // Of two pieces of packed sequences with a full mask, all rows or none.
    const bool is_whole = form.packing != 0 && form.mask.kind == MaskKind::kFull && layout.pieces() == 2;
    seen += is_whole && of_piece > 0 ? keys.count : of_piece;
  }
  return seen;
}

// What a rank moves, keys and gradients: inside its node, and to other nodes.
std::pair<int64_t, int64_t> bytes_due(const BackwardLayout& layout, const AttentionForm& form, int rank) {
  const WorldShape& world = layout.world;
  const int64_t of_keys = 2 * layout.batch * layout.key_row_bytes();
  const int64_t of_gradients = int64_t{2} * layout.batch * layout.kv_heads * layout.dim * 4;
  int64_t in_node = 0;
  int64_t across = 0;
  for (int node = 0; node < world.nodes; ++node) {
    const int source = world.rank_at(node, world.local_of(rank));
    std::vector<int> peers;
    for (int local = 0; local < world.ranks; ++local) {
      const int peer = world.rank_at(world.node_of(rank), local);
      peers.push_back(peer);
      if (peer == rank) continue;
      in_node += of_keys * keys_seen(layout, form, std::vector{peer}, source);
      in_node += of_gradients * keys_seen(layout, form, std::vector{rank}, world.rank_at(node, local));
    }
    if (node == world.node_of(rank)) continue;
    std::vector<int> theirs;
    for (int local = 0; local < world.ranks; ++local) theirs.push_back(world.rank_at(node, local));
    across += of_keys * keys_seen(layout, form, theirs, rank) + of_gradients * keys_seen(layout, form, peers, source);
  }
  return {in_node, across};
}

struct LedgerCut {
  int64_t rows;
  int others, compute, slots, share_rows;
  HeadsLie lie;
};

TEST_P(AttentionBackwardLedger, BalancesAndMovesOnlyWhatIsNeeded) {
  constexpr int kLaunches = 2;
  const auto& [world, form] = GetParam();
  for (const auto& [rows, others, compute, slots, share_rows, lie] :
       {LedgerCut{10, 1, 1, 1, 2, HeadsLie::kWithoutGaps}, LedgerCut{2, 2, 3, 2, 3, HeadsLie::kPacked},
        LedgerCut{10, 3, 2, 3, 16, HeadsLie::kHeadsFirst}}) {
    const attention::Problem problem = attention_problem(world, form, rows, 2, 4, 2);
    auto layout = attention::make_backward_layout(problem,
                                                  {.block_rows = 2,
                                                   .key_rows = 4,
                                                   .part_bytes = 72,
                                                   .chunks_of_piece = 2,
                                                   .share_rows = share_rows,
                                                   .heads_together = 3,
                                                   .slots = slots},
                                                  backward_roster(world, others, compute));
    lay_keys(lie, layout);
    const ledger::Ledger ledger = walk<LedgerMachine>(layout, kLaunches);
    ASSERT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto [in_node, across] = bytes_due(layout, form, rank);
      EXPECT_EQ(ledger.nvlink_bytes(rank), static_cast<uint64_t>(kLaunches * in_node)) << rank;
      EXPECT_EQ(ledger.network_bytes(rank), static_cast<uint64_t>(kLaunches * across)) << rank;
      EXPECT_EQ(attention::backward_nvlink_bytes(layout, rank), static_cast<uint64_t>(in_node)) << rank;
      EXPECT_EQ(attention::backward_network_bytes(layout, rank), static_cast<uint64_t>(across)) << rank;
    }
  }
}

// Blocks that see a tile are those whose tiles seen have it, and all pairs of positions are among them.
TEST_P(AttentionBackwardLedger, TilesAndBlocksAgreeOnWhoSeesWhom) {
  const auto& [world, form] = GetParam();
  const attention::Problem problem = attention_problem(world, form, 14, 1, 1, 1);
  const int64_t seq = 14 * world.size();
  const auto layout =
      attention::make_backward_layout(problem, {.block_rows = 3, .key_rows = 4}, backward_roster(world, 1, 2));
  for (int rank = 0; rank < world.size(); ++rank) {
    for (int step = 0; step < layout.num_steps(); ++step) {
      for (int64_t number = 0; number < layout.num_key_tiles(rank, step); ++number) {
        const KeyTile tile = layout.key_tile_at(rank, step, number);
        for (int at = 0; at < layout.num_blocks(rank); ++at) {
          const QueryBlock block = layout.block_at(rank, at);
          bool sees = false;
          for (int64_t q = 0; q < block.rows.count; ++q) {
            for (int64_t key = 0; key < tile.rows.count; ++key) {
              sees = sees || mk::test::sees(form, seq, block.position + q, tile.position + key);
            }
          }
          const int piece = block.rows.first < layout.piece_rows() ? 0 : 1;
          const auto blocks = layout.blocks_that_see(rank, piece, tile);
          const auto tiles = layout.tiles_seen_by(rank, block, step, tile.piece);
          const int index = at - layout.first_block(rank, 0, 0, piece);
          EXPECT_EQ(blocks.begin <= index && index < blocks.end, sees) << rank << " " << step << " " << number;
          EXPECT_EQ(tiles.begin <= tile.index && tile.index < tiles.end, sees) << rank << " " << step << " " << number;
        }
      }
    }
  }
}

// Machines that do one thing wrong.
struct ForgetsAnAdd : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  static inline int victim = 0;
  void add(const Signal& signal, uint64_t amount) {
    if (calls++ != victim) LedgerMachine::add(signal, amount);
  }
  int calls = 0;
};
struct PutsHalfOfABundle : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool put(const Put& put, int64_t subject) {
    return (put.bytes > 0 && is_odd++ % 2 == 1) || LedgerMachine::put(put, subject);
  }
  int is_odd = 0;
};
struct ForgetsAnEmptyPut : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool put(const Put& put, int64_t subject) {
    return (put.bytes == 0 && calls++ == 0) || LedgerMachine::put(put, subject);
  }
  int calls = 0;
};
struct TakesATurnTwice : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool wait_turn(uint32_t signal, uint64_t turn, int64_t subject) {
    return LedgerMachine::wait_turn(signal, turn > 0 && calls++ == 0 ? turn - 1 : turn, subject);
  }
  int calls = 0;
};

template <class M>
bool is_found(const WorldShape& world, int slots = 2) {
  const attention::Problem problem = attention_problem(world, {{MaskKind::kCausal}, SequenceOrder::kZigzag}, 10);
  const BackwardLayout layout = attention::make_backward_layout(
      problem, {.block_rows = 2, .key_rows = 4, .part_bytes = 72, .share_rows = 2, .slots = slots},
      backward_roster(world, 1, 2));
  return !walk<M>(layout, 3).complaints().empty();
}

TEST(AttentionBackwardLedgerMutant, IsFound) {
  for (ForgetsAnAdd::victim = 0; ForgetsAnAdd::victim < 20; ++ForgetsAnAdd::victim) {
    EXPECT_TRUE(is_found<ForgetsAnAdd>({2, 2})) << ForgetsAnAdd::victim;
  }
  EXPECT_TRUE(is_found<PutsHalfOfABundle>({2, 2}));
  EXPECT_TRUE(is_found<ForgetsAnEmptyPut>({2, 2}));
  EXPECT_TRUE(is_found<ForgetsAnEmptyPut>({4, 1}, 1));
  EXPECT_TRUE(is_found<TakesATurnTwice>({1, 1}));
  EXPECT_TRUE(is_found<TakesATurnTwice>({1, 4}));
}

// Slots and sums: nothing of them grows with the world, but a word for each block and step.
TEST(AttentionBackwardMemory, GrowsWithTheRowsOfARankAndNotWithTheWorld) {
  const AttentionForm form{{MaskKind::kCausal}, SequenceOrder::kZigzag};
  const auto bytes = [&](const WorldShape& world, int64_t rows) {
    const BackwardLayout layout =
        attention::make_backward_layout(attention_problem(world, form, rows), {}, backward_roster(world, 1, 2));
    uint64_t sum = 0;
    for (const uint64_t window : window_bytes(layout)) sum += window;
    return sum - layout.most_tiles() * (2 * world.size() + 1) * 4;
  };
  const uint64_t keys_and_values = 2 * 2 * 64 * 1 * 3 * 4;  // of a rank: batch, rows, heads, dim, bytes
  const uint64_t gradients = keys_and_values;               // fp32, as the keys of this problem
  const uint64_t queries = 2 * 2 * 64 * (3 + 2) * 4;        // batch, heads, rows; sums, lse and delta; bytes
  EXPECT_EQ(bytes({1, 1}, 64), queries);
  EXPECT_EQ(bytes({1, 8}, 64), 2 * keys_and_values + queries + (1 + 2) * gradients);
  EXPECT_EQ(bytes({8, 1}, 64), 3 * keys_and_values + queries + (1 + 4) * gradients);
  EXPECT_EQ(bytes({4, 8}, 64), 5 * keys_and_values + queries + (1 + 6) * gradients);
  EXPECT_EQ(bytes({8, 16}, 64), 5 * keys_and_values + queries + (1 + 6) * gradients);
}

}  // namespace
}  // namespace mk::test
