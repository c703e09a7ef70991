// SPDX-License-Identifier: MIT
// tests/core/schedule_test.cc — the orders of visit, by their properties.
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "tests/support/worlds.h"

namespace mk::test {
namespace {

class Schedule : public testing::TestWithParam<WorldShape> {
 protected:
  const WorldShape world = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Worlds, Schedule, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(Schedule, SourcesAreAPermutationThatBeginsWithSelf) {
  for (int rank = 0; rank < world.size(); ++rank) {
    std::set<int> sources;
    for (int step = 0; step < world.size(); ++step) sources.insert(source_at(world, rank, step));
    EXPECT_EQ(source_at(world, rank, 0), rank);
    EXPECT_EQ(static_cast<int>(sources.size()), world.size());
    EXPECT_EQ(*sources.begin(), 0);
    EXPECT_EQ(*sources.rbegin(), world.size() - 1);
  }
}

TEST_P(Schedule, AllPeersOfTheNodeComeBeforeAnyOtherNode) {
  for (int rank = 0; rank < world.size(); ++rank) {
    for (int step = 0; step < world.size(); ++step) {
      EXPECT_EQ(world.same_node(rank, source_at(world, rank, step)), step < world.ranks);
    }
  }
}

TEST_P(Schedule, TheRailComesFirstInEveryNode) {
  for (int rank = 0; rank < world.size(); ++rank) {
    for (int node = 0; node < world.nodes; ++node) {
      EXPECT_EQ(world.local_of(source_at(world, rank, node * world.ranks)), world.local_of(rank));
    }
  }
}

TEST_P(Schedule, AtEveryStepAllRanksReadDifferentSources) {
  for (int step = 0; step < world.size(); ++step) {
    std::set<int> sources;
    for (int rank = 0; rank < world.size(); ++rank) sources.insert(source_at(world, rank, step));
    EXPECT_EQ(static_cast<int>(sources.size()), world.size());
  }
}

TEST_P(Schedule, ASenderServesEveryPeerOfItsNodeOnce) {
  for (int rank = 0; rank < world.size(); ++rank) {
    std::set<int> peers;
    for (int step = 1; step < world.ranks; ++step) peers.insert(peer_at(world, rank, step));
    EXPECT_EQ(static_cast<int>(peers.size()), world.ranks - 1);
    for (const int peer : peers) {
      EXPECT_NE(peer, rank);
      EXPECT_TRUE(world.same_node(peer, rank));
    }
  }
}

TEST_P(Schedule, ASenderServesEveryRankOfItsRailOnce) {
  for (int rank = 0; rank < world.size(); ++rank) {
    std::set<int> nodes;
    for (int step = 1; step < world.nodes; ++step) {
      const int peer = rail_peer_at(world, rank, step);
      EXPECT_EQ(world.local_of(peer), world.local_of(rank));
      EXPECT_FALSE(world.same_node(peer, rank));
      nodes.insert(world.node_of(peer));
    }
    EXPECT_EQ(static_cast<int>(nodes.size()), world.nodes - 1);
  }
}

// Whom a sender serves at a step looks for that sender at that very step.
TEST_P(Schedule, SendersAndReceiversMeet) {
  for (int rank = 0; rank < world.size(); ++rank) {
    for (int step = 1; step < world.ranks; ++step) {
      EXPECT_EQ(source_at(world, peer_at(world, rank, step), step), rank);
    }
    for (int step = 1; step < world.nodes; ++step) {
      EXPECT_EQ(source_at(world, rail_peer_at(world, rank, step), step * world.ranks), rank);
    }
  }
}

TEST(Banded, VisitsEveryPositionOfTheGridOnce) {
  for (const int rows : {1, 2, 3, 5, 8, 17}) {
    for (const int cols : {1, 2, 7, 13}) {
      for (const int band : {1, 2, 3, 4, 16, 100}) {
        std::set<std::pair<int, int>> seen;
        for (int64_t step = 0; step < int64_t{rows} * cols; ++step) {
          const GridPos at = banded(step, rows, cols, band);
          ASSERT_TRUE(at.row >= 0 && at.row < rows && at.col >= 0 && at.col < cols)
              << rows << " " << cols << " " << band;
          ASSERT_TRUE(seen.insert({at.row, at.col}).second) << "twice: " << at.row << ", " << at.col;
        }
      }
    }
  }
}

TEST_P(Schedule, ANodeServesEveryNodeOnceAndItselfLast) {
  for (int node = 0; node < world.nodes; ++node) {
    std::set<int> served;
    for (int step = 0; step < world.nodes; ++step) served.insert(served_node_at(node, step, world.nodes));
    EXPECT_EQ(static_cast<int>(served.size()), world.nodes);
    EXPECT_EQ(served_node_at(node, world.nodes - 1, world.nodes), node);
  }
}

TEST(BandedGroups, VisitsEveryPositionOfEveryGridOnce) {
  for (const int groups : {1, 2, 5}) {
    for (const int rows : {1, 2, 3, 8}) {
      for (const int band : {1, 2, 3, 16}) {
        constexpr int kCols = 3;
        std::set<std::tuple<int, int, int>> seen;
        for (int64_t step = 0; step < int64_t{groups} * rows * kCols; ++step) {
          const GroupPos pos = banded_groups(step, groups, rows, kCols, band);
          ASSERT_TRUE(pos.group >= 0 && pos.group < groups && pos.at.row >= 0 && pos.at.row < rows && pos.at.col >= 0 &&
                      pos.at.col < kCols);
          ASSERT_TRUE(seen.insert({pos.group, pos.at.row, pos.at.col}).second) << "step " << step;
        }
      }
    }
  }
}

TEST(BandedGroups, FinishesABandOfEveryGridBeforeTheNextBegins) {
  constexpr int kGroups = 3, kRows = 7, kCols = 2, kBand = 3;
  std::pair<int, int> last{0, 0};  // band and group
  for (int64_t step = 0; step < kGroups * kRows * kCols; ++step) {
    const GroupPos pos = banded_groups(step, kGroups, kRows, kCols, kBand);
    const std::pair now{pos.at.row / kBand, pos.group};
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Banded, FinishesABandBeforeTheNextBegins) {
  constexpr int kRows = 11, kCols = 5, kBand = 4;
  int last_band = 0;
  for (int64_t step = 0; step < kRows * kCols; ++step) {
    const int band = banded(step, kRows, kCols, kBand).row / kBand;
    ASSERT_GE(band, last_band);
    last_band = band;
  }
}

TEST(Bands, AreTheSameWalk) {
  for (const int rows : {1, 2, 3, 5, 8, 17}) {
    for (const int cols : {1, 2, 7, 13}) {
      for (const int band : {1, 2, 3, 4, 16, 100}) {
        const Bands bands(rows, cols, band);
        for (int step = 0; step < rows * cols; ++step) {
          const GridPos at = bands.at(step), same = banded(step, rows, cols, band);
          ASSERT_TRUE(at.row == same.row && at.col == same.col) << rows << " " << cols << " " << band << " " << step;
        }
      }
    }
  }
}

// A band that is higher than the grid is no reason to overflow.
TEST(Bands, HoldAGridOfOneRow) {
  const Bands bands(1, 1 << 30, 1 << 20);
  EXPECT_EQ(bands.at((1 << 30) - 1).col, (1 << 30) - 1);
  EXPECT_EQ(bands.at((1 << 30) - 1).row, 0);
}

}  // namespace
}  // namespace mk::test
