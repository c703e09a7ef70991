// SPDX-License-Identifier: MIT
// tests/order/ag_gemm_order_test.cc — the order of tiles, as pure functions: each tile once, own rows first.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "tests/support/op_layouts.h"

namespace mk::test {
namespace {

using ag_gemm_op::Layout;

// Calls body with each layout: every shape and tiling, for several numbers of compute workers.
template <class Body>
void for_each_layout(const WorldShape& world, Body&& body) {
  for (const Tiling tiling : {Tiling::kCpu, Tiling::kGpu}) {
    for (const Shape& shape : ag_gemm_row().cut_shapes()) {
      for (const int compute : {1, 3, 133}) {
        const Layout layout = ag_layout(world, {shape, tiling, {{"compute", compute}, {"intra", 1}, {"send", 1}}});
        SCOPED_TRACE(name_of(shape) + ", " + std::to_string(compute) + " workers, tile of " +
                     std::to_string(layout.tile_m));
        body(layout);
      }
    }
  }
}

Post compute_post(const Layout& layout, int worker) { return {Layout::kCompute, worker, layout.roles.num_compute()}; }

// The tiles of one worker, in its order.
std::vector<Tile> tiles_of(const Layout& layout, int rank, int worker) {
  std::vector<Tile> tiles;
  ag_gemm_op::for_each_tile(layout, rank, compute_post(layout, worker), [&](const Tile& tile) {
    tiles.push_back(tile);
    return true;
  });
  return tiles;
}

class Order : public testing::TestWithParam<WorldShape> {};

INSTANTIATE_TEST_SUITE_P(Worlds, Order, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(Order, EveryRankVisitsEveryTileOnce) {
  for_each_layout(GetParam(), [](const Layout& layout) {
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      std::vector<int> visits(layout.num_tiles());  // of (source, row block, column block)
      for (int worker = 0; worker < layout.roles.num_compute(); ++worker) {
        for (const Tile& tile : tiles_of(layout, rank, worker)) {
          ASSERT_TRUE(tile.row_block >= 0 && tile.row_block < layout.row_blocks);
          ASSERT_TRUE(tile.col_block >= 0 && tile.col_block < layout.col_blocks);
          ++visits[layout.chunk_number(tile.source, tile.row_block) * layout.col_blocks + tile.col_block];
        }
      }
      ASSERT_EQ(std::count(visits.begin(), visits.end(), 1), layout.num_tiles());
    }
  });
}

TEST_P(Order, TilesCoverTheOutputAndNothingElse) {
  for_each_layout(GetParam(), [](const Layout& layout) {
    int64_t area = 0;
    for (const Tile& tile : tiles_of(layout, 0, 0)) {
      const Range rows = layout.rows_of(tile.row_block);
      const Range cols = layout.cols_of(tile.col_block);
      ASSERT_TRUE(rows.count >= 1 && rows.first + rows.count <= layout.shard_rows);
      ASSERT_TRUE(cols.count >= 1 && cols.first + cols.count <= layout.n);
      ASSERT_TRUE(tile.source >= 0 && tile.source < layout.world.size());
      area += rows.count * cols.count;
    }
    if (layout.roles.num_compute() == 1) {
      ASSERT_EQ(area, layout.shard_rows * layout.world.size() * layout.n);
    }
  });
}

TEST_P(Order, EveryWorkerTakesOwnRowsThenTheNodesThenOtherNodes) {
  const auto distance = [](const WorldShape& world, int rank, int source) {
    return source == rank ? 0 : world.same_node(rank, source) ? 1 : 2;
  };
  for_each_layout(GetParam(), [&](const Layout& layout) {
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      for (int worker = 0; worker < layout.roles.num_compute(); ++worker) {
        int reached = 0;
        for (const Tile& tile : tiles_of(layout, rank, worker)) {
          const int now = distance(layout.world, rank, tile.source);
          ASSERT_GE(now, reached) << "tile " << tile.number << " of rank " << rank;
          reached = now;
        }
      }
    }
  });
}

// They arrive side by side: whoever takes one rank's rows after the other's waits for the last of the first before it
// begins the second.
TEST_P(Order, AnotherNodesRowsAreTakenFromAllItsRanksInTurn) {
  for_each_layout(GetParam(), [](const Layout& layout) {
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      const int64_t per_node = layout.num_tiles() / layout.world.nodes;
      for (int64_t number = per_node; number < layout.num_tiles(); ++number) {
        const Tile tile = ag_gemm_op::tile_at(layout, rank, number);
        const Tile before = ag_gemm_op::tile_at(layout, rank, number - 1);
        const auto band_of = [&](const Tile& t) {
          const int turn = wrap(layout.world.local_of(t.source) - layout.world.local_of(rank), layout.world.ranks);
          return (t.row_block * layout.world.ranks + turn) / layout.band;
        };
        const int steps = wrap(layout.world.node_of(tile.source) - layout.world.node_of(rank), layout.world.nodes);
        ASSERT_EQ(steps, number / per_node);
        if (number % per_node == 0) {
          ASSERT_EQ(tile.row_block, 0);
        } else {
          ASSERT_GE(band_of(tile), band_of(before));
        }
      }
    }
  });
}

TEST_P(Order, PartsMakeUpTheirChunk) {
  for_each_layout(GetParam(), [](const Layout& layout) {
    int64_t number = 0;
    for (int chunk = 0; chunk < layout.row_blocks; ++chunk) {
      int64_t next = layout.chunk_bytes(chunk).first;
      for (int index = 0; index < layout.parts; ++index) {
        const ag_gemm_op::Part part = layout.part_at(number++);
        ASSERT_EQ(part.chunk, chunk);
        ASSERT_EQ(part.index, index);
        const Range bytes = layout.part_bytes(part);
        ASSERT_EQ(bytes.first, next);
        ASSERT_GE(bytes.count, 0);
        next += bytes.count;
      }
      ASSERT_EQ(next, layout.chunk_bytes(chunk).first + layout.chunk_bytes(chunk).count);
    }
    ASSERT_EQ(number, layout.num_parts());
    ASSERT_EQ(layout.part_size % 16, 0);
  });
}

TEST_P(Order, AWorkerStopsWhereItsBodySaysSo) {
  for_each_layout(GetParam(), [](const Layout& layout) {
    int visited = 0;
    const bool finished = ag_gemm_op::for_each_tile(layout, 0, compute_post(layout, 0), [&](const Tile&) {
      ++visited;
      return false;
    });
    ASSERT_FALSE(finished);
    ASSERT_EQ(visited, 1);
  });
}

TEST(AgGemmOrder, OfOtherNodesAWaveTakesTheSameRowBlockOfEveryShard) {
  const ag_gemm_op::Problem problem{{2, 2}, 8192, 3456, 8192, DType::kBf16};
  const Layout layout = ag_gemm_op::make_layout(problem, {.m = 128, .n = 256, .band = 4}, ag_gemm_op::roster(9, 3, 31));
  const int far = layout.world.ranks * layout.row_blocks * layout.col_blocks;
  std::set<int> sources;
  for (int i = 0; i < 2 * layout.col_blocks; ++i) {
    const Tile tile = ag_gemm_op::tile_at(layout, 0, far + i);
    EXPECT_EQ(tile.row_block, 0);
    sources.insert(tile.source);
  }
  EXPECT_EQ(sources, (std::set<int>{2, 3}));
  EXPECT_EQ(ag_gemm_op::tile_at(layout, 0, far + 2 * layout.col_blocks).row_block, 1);
}

// A signal belongs to one chunk of one rank: two chunks that share one could let a tile start early.
TEST_P(Order, NoTwoSignalsShareACounter) {
  for_each_layout(GetParam(), [](const Layout& layout) {
    std::set<uint32_t> counters;
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      ASSERT_TRUE(counters.insert(layout.ready(rank)).second);
      for (int chunk = 0; chunk < layout.row_blocks; ++chunk) {
        ASSERT_TRUE(counters.insert(layout.arrived(rank, chunk)).second);
      }
    }
    for (int node = 0; layout.passes_on() && node < layout.world.nodes; ++node) {
      for (int64_t part = 0; part < layout.num_parts(); ++part) {
        ASSERT_TRUE(counters.insert(layout.landed(node, layout.part_at(part))).second);
      }
    }
    ASSERT_EQ(counters.size(), layout.num_signals());
    ASSERT_LT(*counters.rbegin(), layout.num_signals());
  });
}

}  // namespace
}  // namespace mk::test
