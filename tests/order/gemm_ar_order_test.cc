// SPDX-License-Identifier: MIT
// tests/order/gemm_ar_order_test.cc — GEMM+AllReduce's orders and places, as pure functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "tests/support/op_layouts.h"

namespace mk::test {
namespace {

using gemm_ar_op::OneShotLayout;
using gemm_ar_op::TwoShotLayout;

class ArOrder : public testing::TestWithParam<WorldShape> {
 protected:
  static std::vector<Tile> gathered_by(const TwoShotLayout& layout, int rank) {
    std::vector<Tile> tiles;
    for (int64_t number = 0; number < layout.num_gathered(); ++number) {
      tiles.push_back(gemm_ar_op::gathered_at(layout, rank, number));
    }
    return tiles;
  }
  static int64_t number_of(const TwoShotLayout& layout, const Tile& tile) {
    return tile.source * layout.shard.tiles() + layout.shard.index(tile);
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, ArOrder, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(ArOrder, EveryRankGathersEveryTileThatIsNotItsOwnOnce) {
  for_each_cut(Op::kGemmAr, [&](const OpCut& cut) {
    const TwoShotLayout layout = ar_layout(GetParam(), cut);
    for (int rank = 0; rank < layout.world.size(); ++rank) {
      std::vector<int> visits(layout.num_tiles());
      for (const Tile& tile : gathered_by(layout, rank)) ++visits[number_of(layout, tile)];
      for (int64_t i = 0; i < layout.num_tiles(); ++i) ASSERT_EQ(visits[i], i / layout.shard.tiles() == rank ? 0 : 1);
    }
  });
}

// A holder passes on what its peers wait for before it waits, by the same order, for what they pass on:
// nobody waits in a circle.
TEST_P(ArOrder, AHolderTakesATileBeforeAnyPeerOfItsNodeWouldWaitForIt) {
  for_each_cut(Op::kGemmAr, [&](const OpCut& cut) {
    const TwoShotLayout layout = ar_layout(GetParam(), cut);
    const WorldShape& world = layout.world;
    for (int rank = 0; rank < world.size(); ++rank) {
      for (const Tile& tile : gathered_by(layout, rank)) {
        const int holder = layout.holder_of(rank, tile.source);
        if (holder == rank || holder == tile.source) continue;
        const std::vector<Tile> theirs = gathered_by(layout, holder);
        const auto same = std::find_if(theirs.begin(), theirs.end(), [&](const Tile& other) {
          return number_of(layout, other) == number_of(layout, tile);
        });
        ASSERT_LT(same->number, tile.number) << "rank " << rank;
      }
      if (cut.shape.n > 65) break;  // one rank is enough of the larger ones
    }
  });
}

TEST_P(ArOrder, FinishedTilesFillTheFinalWindowOfEveryHolder) {
  if (GetParam().size() == 1) return;  // no windows
  const TwoShotLayout layout = ar_layout(GetParam());
  const WorldShape& world = layout.world;
  for (int rank = 0; rank < world.size(); ++rank) {
    std::map<uint64_t, uint64_t> ranges;  // first byte → end
    for (int64_t number = 0; number < layout.num_reduced(); ++number) {
      const Tile tile = gemm_rs_op::reduced_at(layout, rank, number);
      const Place place = layout.final_place(rank, tile);
      ASSERT_EQ(place.rank, rank);
      ranges[place.offset] = place.offset + layout.shard.tile_bytes(tile).count;
    }
    uint64_t end = 0;
    for (const auto& [first, last] : ranges) {
      ASSERT_EQ(first, end);
      end = last;
    }
    EXPECT_EQ(end, window_bytes(layout).back());
  }
}

TEST_P(ArOrder, NoTwoSignalsShareACounter) {
  const TwoShotLayout layout = ar_layout(GetParam());
  const gemm_rs_op::Layout& first_half = layout;
  std::set<uint32_t> counters;
  for (int64_t number = 0; number < layout.num_tiles(); ++number) {
    const uint32_t counter = layout.finished(gemm_rs_op::tile_at(layout, 0, number));
    ASSERT_GE(counter, first_half.num_signals());
    ASSERT_TRUE(counters.insert(counter).second);
  }
  EXPECT_EQ(*counters.rbegin() + 1, layout.num_signals());
  EXPECT_EQ(first_half.num_signals() + counters.size(), layout.num_signals());
}

TEST_P(ArOrder, InOneShotNoTwoSignalsAndNoTwoImagesShareAPlace) {
  const OneShotLayout layout = one_shot_layout(GetParam());
  const WorldShape& world = layout.world;
  std::set<uint32_t> counters;
  std::set<std::tuple<uint32_t, int, uint64_t>> places;
  for (int rank = 0; rank < world.size(); ++rank) ASSERT_TRUE(counters.insert(layout.ready(rank)).second);
  const auto take = [&](const Place& place) {
    return places.insert({place.window, place.rank, place.offset}).second &&
           (world.size() == 1 || place.offset < window_bytes(layout)[place.window - kFirstOperatorWindow]);
  };
  for (int64_t number = 0; number < layout.num_tiles(); ++number) {
    const Tile tile = gemm_ar_op::tile_at(layout, number);
    ASSERT_TRUE(counters.insert(layout.partial(tile)).second);
    for (int node = 0; node < world.nodes && world.nodes > 1; ++node) {
      ASSERT_TRUE(counters.insert(layout.arrived(node, tile)).second);
      ASSERT_TRUE(node == 0 || take(layout.other_sum_place(0, node, tile)));
    }
    for (int source = 0; source < world.ranks; ++source) ASSERT_TRUE(take(layout.partial_place(0, source, tile)));
  }
  EXPECT_EQ(counters.size(), layout.num_signals());
}

TEST(ArSignals, HaveNames) {
  const Tile last{0, 2, 1, 1};
  const TwoShotLayout two = ar_layout({2, 2});
  EXPECT_EQ(signal_name(two, two.ready(3)), "ready[rank 3]");
  EXPECT_EQ(signal_name(two, two.arrived(1, last)), "arrived[node 1, tile 3]");
  EXPECT_EQ(signal_name(two, two.finished(last)), "finished[rank 2, tile 3]");
  const OneShotLayout one = one_shot_layout({2, 2});  // 132 rows: five row blocks
  const Tile corner{0, 0, 4, 1};
  EXPECT_EQ(signal_name(one, one.ready(3)), "ready[rank 3]");
  EXPECT_EQ(signal_name(one, one.partial(corner)), "partial[tile 9]");
  EXPECT_EQ(signal_name(one, one.arrived(1, corner)), "arrived[node 1, tile 9]");
}

}  // namespace
}  // namespace mk::test
