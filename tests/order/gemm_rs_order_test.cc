// SPDX-License-Identifier: MIT
// tests/order/gemm_rs_order_test.cc — GEMM+ReduceScatter's orders and places, as pure functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ops/gemm_rs/gemm_rs_protocol.h"
#include "tests/support/op_layouts.h"

namespace mk::test {
namespace {

using gemm_rs_op::Layout;

class RsOrder : public testing::TestWithParam<WorldShape> {
 protected:
  // Calls body(layout) for every shape, tiling and split.
  template <class Body>
  void for_each(Body&& body) const {
    for_each_cut(Op::kGemmRs, [&](const OpCut& cut) { body(rs_layout(GetParam(), cut)); });
  }

  static std::vector<Tile> tiles_of(const Layout& layout, int rank) {
    std::vector<Tile> tiles;
    for (int64_t number = 0; number < layout.num_tiles(); ++number) {
      tiles.push_back(gemm_rs_op::tile_at(layout, rank, number));
    }
    return tiles;
  }
  static std::vector<Tile> reduced_by(const Layout& layout, int rank) {
    std::vector<Tile> tiles;
    for (int64_t number = 0; number < layout.num_reduced(); ++number) {
      tiles.push_back(gemm_rs_op::reduced_at(layout, rank, number));
    }
    return tiles;
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, RsOrder, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(RsOrder, EveryRankMakesEveryTileOnce) {
  for_each([](const Layout& layout) {
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      std::vector<int> visits(layout.num_tiles());
      for (int worker = 0; worker < layout.roles.num_compute(); ++worker) {
        const Post post{Layout::kCompute, worker, layout.roles.num_compute()};
        gemm_rs_op::for_each_tile(layout, rank, post, [&](const Tile& tile) {
          ++visits[tile.source * layout.shard.tiles() + layout.shard.index(tile)];
          return true;
        });
      }
      ASSERT_EQ(std::count(visits.begin(), visits.end(), 1), layout.num_tiles());
    }
  });
}

TEST_P(RsOrder, OtherNodesComeFirstAndTheOwnNodeLast) {
  for_each([](const Layout& layout) {
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      bool reached_home = false;
      for (const Tile& tile : tiles_of(layout, rank)) {
        const bool home = layout.world.same_node(tile.source, rank);
        ASSERT_FALSE(reached_home && !home) << "tile " << tile.number;
        reached_home = home;
      }
    }
  });
}

TEST_P(RsOrder, InEveryBandOwnRowsComeLast) {
  for_each([](const Layout& layout) {
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      std::set<std::pair<int, int>> left_for_home;  // node and band
      for (const Tile& tile : tiles_of(layout, rank)) {
        const std::pair band{layout.world.node_of(tile.source), tile.row_block / layout.band};
        const bool own_rail = layout.world.local_of(tile.source) == layout.world.local_of(rank);
        ASSERT_TRUE(own_rail || !left_for_home.contains(band)) << "tile " << tile.number;
        if (own_rail) left_for_home.insert(band);
      }
    }
  });
}

// So that a band can be reduced when all ranks of the node are about as far.
TEST_P(RsOrder, AllRanksOfANodeMakeTheSameBandAtTheSameTime) {
  for_each([](const Layout& layout) {
    for (int node = 0; node < layout.world.nodes; ++node) {
      const std::vector<Tile> first = tiles_of(layout, layout.world.rank_at(node, 0));
      for (int local = 1; local < layout.world.ranks; ++local) {
        const std::vector<Tile> other = tiles_of(layout, layout.world.rank_at(node, local));
        for (size_t i = 0; i < first.size(); ++i) {
          ASSERT_EQ(layout.world.node_of(first[i].source), layout.world.node_of(other[i].source));
          ASSERT_EQ(first[i].row_block / layout.band, other[i].row_block / layout.band);
        }
      }
    }
  });
}

TEST_P(RsOrder, AReducerTakesTheTilesOfItsRailInTheOrderTheyAreMade) {
  for_each([](const Layout& layout) {
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      std::vector<std::tuple<int, int, int>> made;
      std::vector<std::tuple<int, int, int>> reduced;
      for (const Tile& tile : tiles_of(layout, rank)) {
        if (layout.reducer_of(rank, tile.source) == rank) made.push_back({tile.source, tile.row_block, tile.col_block});
      }
      for (const Tile& tile : reduced_by(layout, rank))
        reduced.push_back({tile.source, tile.row_block, tile.col_block});
      ASSERT_EQ(made, reduced);
    }
  });
}

TEST_P(RsOrder, EveryTileHasOneReducerInEveryNode) {
  for_each([](const Layout& layout) {
    std::map<std::pair<int, int64_t>, int> reducers;  // by node and tile of the world
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      for (const Tile& tile : reduced_by(layout, rank)) {
        const int64_t number = tile.source * layout.shard.tiles() + layout.shard.index(tile);
        ++reducers[{layout.world.node_of(rank), number}];
      }
    }
    ASSERT_EQ(static_cast<int64_t>(reducers.size()), layout.world.nodes * layout.num_tiles());
    for (const auto& [where, count] : reducers) ASSERT_EQ(count, 1);
  });
}

// No two tiles, whoever writes them, share a byte of a window; and all lie inside.
TEST_P(RsOrder, EveryImageHasAPlaceOfItsOwn) {
  const WorldShape world = GetParam();
  if (world.size() == 1) return;  // no windows
  const Layout layout = rs_layout(world);
  std::map<std::pair<uint32_t, int>, std::map<uint64_t, uint64_t>> taken;  // window, rank: first byte → end
  const auto take = [&](const Place& place, const Tile& tile) {
    const uint64_t end = place.offset + layout.shard.tile_bytes(tile).count;
    ASSERT_LE(end, gemm_rs_op::window_bytes(layout)[place.window - kFirstOperatorWindow]);
    ASSERT_TRUE((taken[{place.window, place.rank}].insert({place.offset, end}).second));
  };
  for (int rank = 0; rank < world.size(); ++rank) {
    for (const Tile& tile : tiles_of(layout, rank)) take(layout.partial_place(rank, tile), tile);
    for (const Tile& tile : reduced_by(layout, rank)) {
      if (world.same_node(tile.source, rank)) continue;
      take(layout.outgoing_place(rank, tile), tile);
      take(layout.incoming_place(world.node_of(rank), tile), tile);
    }
  }
  for (const auto& [where, ranges] : taken) {
    uint64_t end = 0;
    for (const auto& [first, last] : ranges) {
      ASSERT_EQ(first, end) << "window " << where.first << " of rank " << where.second;
      end = last;
    }
    ASSERT_EQ(end, gemm_rs_op::window_bytes(layout)[where.first - kFirstOperatorWindow]);
  }
}

TEST_P(RsOrder, NoTwoSignalsShareACounter) {
  for_each([](const Layout& layout) {
    const WorldShape& world = layout.world;
    std::set<uint32_t> counters;
    for (int rank = 0; rank < world.size(); ++rank) ASSERT_TRUE(counters.insert(layout.ready(rank)).second);
    for (const Tile& tile : reduced_by(layout, 0)) {
      const int node = world.node_of(tile.source);
      ASSERT_TRUE(counters.insert(layout.partial(node, tile)).second);
      if (world.nodes == 1) continue;
      ASSERT_TRUE(counters.insert(layout.arrived(node, tile)).second);
    }
    ASSERT_EQ(counters.size(), layout.num_signals());
    ASSERT_EQ(*counters.rbegin() + 1, layout.num_signals());
  });
}

TEST(RsSignals, HaveNames) {
  const Layout layout = rs_layout({2, 2});
  const Tile last{0, 0, 1, 1};
  EXPECT_EQ(signal_name(layout, layout.ready(3)), "ready[rank 3]");
  EXPECT_EQ(signal_name(layout, layout.partial(1, last)), "partial[node 1, tile 3]");
  EXPECT_EQ(signal_name(layout, layout.arrived(0, last)), "arrived[node 0, tile 3]");
}

}  // namespace
}  // namespace mk::test
