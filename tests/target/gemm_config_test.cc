// SPDX-License-Identifier: MIT
// tests/target/gemm_config_test.cc — which tile of the GEMM engine a shape gets.
#include "target/sm90/gemm_config.h"

#include <gtest/gtest.h>

#include <ostream>
#include <set>

namespace mk::sm90 {

void PrintTo(const GemmTile& tile, std::ostream* out) { *out << tile.m << "x" << tile.n << "x" << tile.cluster; }

namespace {

constexpr GemmBlocks kWholeGpu{.compute = 132};

GemmTile choose(const GemmWork& work, const GemmBlocks& blocks = kWholeGpu) {
  return choose_tile(kGemmTiles, work, blocks);
}

// Calls body with shapes from one element to a large layer's, in worlds of one rank to 16, on few blocks and many.
template <class Body>
void for_each_case(Body&& body) {
  for (const int64_t rows : {1, 63, 64, 128, 129, 1000, 8192}) {
    for (const int64_t shards : {1, 2, 16}) {
      for (const int64_t n : {8, 256, 264, 3584, 8192}) {
        for (const int64_t k : {8, 64, 8192}) {
          for (const int compute : {1, 7, 8, 113, 116, 132}) {
            for (const int others : {0, 1, 2, 15, 16}) {
              body(GemmWork{rows, shards, n, k}, GemmBlocks{compute, others});
            }
          }
        }
      }
    }
  }
}

TEST(GemmTiles, TheChosenOneExistsAndFits) {
  for_each_case([](const GemmWork& work, const GemmBlocks& blocks) {
    const GemmTile tile = choose(work, blocks);
    ASSERT_TRUE(has_tile(kGemmTiles, tile));
    ASSERT_TRUE(fits(tile, blocks)) << blocks.compute << " that compute, " << blocks.others << " that do not";
    ASSERT_TRUE(has_tile(kSoloTiles, choose_tile(kSoloTiles, work, blocks)));
  });
}

TEST(GemmTiles, AClusterNeverStraddlesTwoRoles) {
  for_each_case([](const GemmWork& work, const GemmBlocks& blocks) {
    if (blocks.others % 2 == 0 && blocks.compute % 2 == 0) return;
    ASSERT_EQ(choose(work, blocks).cluster, 1);
  });
  EXPECT_TRUE(fits({128, 256, 2}, {.compute = 116, .others = 16}));
  EXPECT_FALSE(fits({128, 256, 2}, {.compute = 117, .others = 15}));
  EXPECT_FALSE(fits({128, 256, 2}, {.compute = 116, .others = 15}));
  EXPECT_TRUE(fits({128, 256, 1}, {.compute = 117, .others = 15}));
}

TEST(GemmTiles, ALargeProductIsMadeOfTheFastestTile) {
  EXPECT_EQ(choose({16384, 1, 16384, 16384}), (GemmTile{128, 256, 2}));
  EXPECT_EQ(choose({8192, 1, 8192, 8192}, {.compute = 131, .others = 1}), (GemmTile{128, 256, 1}));
  EXPECT_EQ(choose_tile(kSoloTiles, {8192, 1, 8192, 8192}, kWholeGpu), (GemmTile{128, 256, 1}));
}

TEST(GemmTiles, FewRowsAreMadeOfTheLowestTile) {
  for (const int64_t rows : {1, 8, 64}) EXPECT_EQ(choose({rows, 1, 8192, 4096}), (GemmTile{64, 128, 1})) << rows;
}

// 11 row blocks of 128 and 12 column blocks of 256 are 132 tiles; in pairs they would take two waves.
TEST(GemmTiles, OneFullWaveIsTaken) {
  EXPECT_EQ(choose({11 * 128, 1, 12 * 256, 16384}), (GemmTile{128, 256, 1}));
  EXPECT_EQ(choose({12 * 128, 1, 11 * 256, 65536}), (GemmTile{128, 256, 2}));
}

TEST(GemmTiles, AClusterIsNotStartedForAShortLaunch) {
  EXPECT_EQ(choose({2048, 1, 2048, 2048}), (GemmTile{128, 256, 1}));
  EXPECT_EQ(choose({8192, 1, 8192, 1024}), (GemmTile{128, 256, 2}));
}

// 2 × 67 tiles of 128 × 256 on 132 blocks: two more than a wave, so smaller ones are sooner done.
TEST(GemmTiles, ASecondWaveForTwoTilesIsAvoided) {
  EXPECT_EQ(choose({2 * 128, 1, 67 * 256, 8192}), (GemmTile{128, 192, 1}));
}

// As many waves of narrower tiles: 3.4 and 3.9 are both four.  18 of 7/8 beside 16 are not worth their slower loop.
TEST(GemmTiles, WavesAreFilledWithANarrowerTile) {
  EXPECT_EQ(choose({4096, 1, 3584, 8192}), (GemmTile{128, 224, 1}));
  EXPECT_EQ(choose({8192, 1, 8192, 8192}), (GemmTile{128, 256, 2}));
}

// A quarter of a GPU does with a long k; a whole one has its L2 for itself and would lose 1 % (docs/performance.md).
TEST(GemmTiles, BlocksOfAPartOfAGpuKeepStepWhereKIsLong) {
  EXPECT_TRUE(keeps_step(30, 7040));
  EXPECT_TRUE(keeps_step(66, 4096));
  EXPECT_FALSE(keeps_step(30, 3456));
  EXPECT_FALSE(keeps_step(132, 16384));
}

// A box that is too wide would write into the next tile, one that is too narrow would leave a gap.
template <class Config>
void expect_boxes_to_cover_a_part() {
  int cols = 0;
  for (int box = 0; box < Config::kBoxesAcross; ++box) {
    EXPECT_EQ(cols, box * Config::kBox) << Config::kTileN;
    cols += Config::is_narrow(cols) ? Config::kNarrowBox : Config::kBox;
  }
  EXPECT_EQ(cols, Config::kPartN) << Config::kTileN;
}

TEST(GemmTiles, BoxesCoverTheColumnsOfAPartOnce) {
  [&]<class... Config>(std::tuple<Config...>*) {
    (expect_boxes_to_cover_a_part<Config>(), ...);
  }(static_cast<GemmConfigs*>(nullptr));
}

TEST(GemmTiles, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const GemmTile& tile : kGemmTiles) {
    const std::string name = names_of(std::span(&tile, 1));
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_NE(names_of(kGemmTiles).find(name), std::string::npos);
  }
  EXPECT_EQ(names_of(std::span(kGemmTiles).first(2)), "128x256x2, 128x256x1");
  EXPECT_EQ(names_of({}), "");
}

TEST(GemmTiles, OneThatDoesNotExistIsNotInTheList) {
  for (const GemmTile& tile : kGemmTiles) EXPECT_TRUE(has_tile(kGemmTiles, tile));
  for (const GemmTile& tile : kSoloTiles) EXPECT_TRUE(has_tile(kGemmTiles, tile));
  EXPECT_FALSE(has_tile(kGemmTiles, {128, 256, 4}));
  EXPECT_FALSE(has_tile(kGemmTiles, {256, 256, 1}));
  EXPECT_FALSE(has_tile(kSoloTiles, {128, 256, 2}));
  EXPECT_FALSE(has_tile({}, {128, 256, 1}));
}

}  // namespace
}  // namespace mk::sm90
