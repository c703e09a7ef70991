// SPDX-License-Identifier: MIT
// tests/moe/moe_order_test.cc — how tokens are cut into phases and slices, and in which order blocks of rows are
// visited.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "core/for_each_key.h"
#include "ops/moe/moe_targets.h"
#include "target/ledger/ledger_machine.h"
#include "tests/support/draws.h"
#include "tests/support/moe_data.h"

namespace mk::test {
namespace {

int draw(std::mt19937_64& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<uint64_t>(most - least + 1));
}

moe::Layout some_layout(std::mt19937_64& random) {
  const WorldShape world{draw(random, 1, 3), draw(random, 1, 3)};
  const moe::Problem problem = moe_problem(world, draw(random, 1, 3), 1, draw(random, 1, 200));
  moe::Cut cut;
  cut.tile_m = draw(random, 1, 16);
  cut.phase_tokens = draw(random, 1, 250);
  cut.slice_tokens = draw(random, 1, 60);
  cut.early_eighths = draw(random, 0, 8);
  return moe::make_layout(problem, cut, {{draw(random, 1, 4)}, {world.nodes > 1 ? 1 : 0}, {1}});
}

TEST(MoeSlices, HaveEveryTokenOnceAndLieInOnePhase) {
  std::mt19937_64 random(1);
  for (int round = 0; round < draws(300); ++round) {
    const moe::Layout layout = some_layout(random);
    const int64_t tokens = draw(random, 0, static_cast<int>(layout.max_tokens));
    int64_t next = 0;
    for (int slice = 0; slice < layout.num_slices(tokens); ++slice) {
      const Range range = layout.tokens_of_slice(tokens, slice);
      ASSERT_EQ(range.first, next);
      ASSERT_GE(range.count, 1);
      ASSERT_EQ(layout.phase_of_token(range.first), layout.phase_of_token(range.first + range.count - 1));
      ASSERT_EQ(layout.phase_of_token(range.first), slice / layout.slices_per_phase());
      next += range.count;
    }
    ASSERT_EQ(next, tokens);
    ASSERT_LE(layout.num_slices(tokens), layout.num_slices(layout.max_tokens));
  }
}

// Rows of an expert, by the phase that brings them.
struct Rows {
  uint32_t own = 0;
  std::vector<uint32_t> ends;  // of each phase

  Rows(std::mt19937_64& random, const moe::Layout& layout) : own(draw(random, 0, 90)) {
    uint32_t end = own;
    for (int phase = 0; phase < layout.num_phases(); ++phase) {
      if (layout.world.nodes > 1) end += random() % 3 == 0 ? 0 : draw(random, 0, 40);
      ends.push_back(end);
    }
  }
  uint32_t all() const { return ends.back(); }
  moe::BlockRuns in_pass(const moe::Layout& layout, int pass) const {
    const auto end_of = [&](int phase) { return ends[std::clamp(phase, 0, layout.last_phase())]; };
    const int phase = layout.phase_of_pass(pass);
    return layout.blocks_of_pass(pass, all(), own, end_of(phase - 1), end_of(phase));
  }
};

TEST(MoePasses, VisitEveryBlockOnceAndNoneBeforeItsRowsHaveArrived) {
  std::mt19937_64 random(2);
  for (int round = 0; round < draws(3000); ++round) {
    const moe::Layout layout = some_layout(random);
    const Rows rows(random, layout);
    std::map<int64_t, int> visits;
    for (int pass = 0; pass < layout.num_passes(); ++pass) {
      const moe::BlockRuns blocks = rows.in_pass(layout, pass);
      ASSERT_GE(blocks.count, 0);
      for (int i = 0; i < blocks.count; ++i) {
        const int64_t block = blocks.at(i);
        ++visits[block];
        const auto last_row = std::min<uint32_t>((block + 1) * layout.tile_m, rows.all());
        const int phase = layout.phase_of_pass(pass);
        const bool has_phase = phase >= 0 && phase < layout.num_phases();
        ASSERT_LE(last_row, has_phase ? rows.ends[phase] : rows.own);
      }
    }
    ASSERT_EQ(std::ssize(visits), ceil_div<int64_t>(rows.all(), layout.tile_m));
    for (const auto& [block, count] : visits) ASSERT_EQ(count, 1) << block;
  }
}

// Ranks of a node fill blocks one after the other.  If one rank had all early ones, others would have no rows to
// deliver at first.
TEST(MoePasses, EveryRankHasItsShareOfTheEarlyBlocks) {
  moe::Layout layout = moe::make_layout(moe_problem({2, 4}, 1, 1, 8), {.tile_m = 1}, {{1}, {1}, {1}});
  layout.early_eighths = 4;
  for (const int rank_blocks : {8, 16, 24}) {
    const uint32_t own = 4 * rank_blocks;
    const moe::BlockRuns early = layout.blocks_of_pass(0, own + 5, own, own, own + 5);
    EXPECT_EQ(early.count, 2 * rank_blocks);
    std::vector<int> of_rank(4);
    for (int i = 0; i < early.count; ++i) ++of_rank[early.at(i) / rank_blocks];
    EXPECT_EQ(of_rank, std::vector<int>(4, rank_blocks / 2));
    for (int i = 0; i < early.count; ++i) EXPECT_FALSE(layout.is_late(early.at(i), own));
    const moe::BlockRuns late = layout.blocks_of_pass(layout.num_passes() - 1, own + 5, own, own, own + 5);
    EXPECT_EQ(late.count, 2 * rank_blocks);
    for (int i = 0; i < late.count; ++i) EXPECT_TRUE(layout.is_late(late.at(i), own));
  }
}

TEST(MoePasses, WithoutAnEarlyPartOwnBlocksComeLast) {
  moe::Layout layout = moe::make_layout(moe_problem({2, 1}, 1, 1, 8), {.tile_m = 4}, {{1}, {1}, {1}});
  layout.early_eighths = 0;
  EXPECT_EQ(layout.blocks_of_pass(0, 12, 8, 8, 12).count, 0);
  EXPECT_EQ(layout.blocks_of_pass(layout.num_passes() - 1, 12, 8, 8, 12).count, 2);
}

TEST(MoePhases, DependOnTheShapeAlone) {
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    for (const WorldShape world : {WorldShape{1, 4}, WorldShape{2, 2}, WorldShape{2, 8}, WorldShape{8, 8}}) {
      for (const int64_t tokens : {1, 100, 4096, 16384, 131072}) {
        const moe::Problem problem = moe_problem(world, 16, 8, tokens);
        const int phase = moe::phase_tokens_of(problem, device);
        EXPECT_GE(phase, 1);
        EXPECT_LE(phase, tokens);
        EXPECT_LE(ceil_div<int64_t>(tokens, phase), world.nodes == 1 ? 1 : 16);
        moe::Problem other = problem;  // what does not decide
        other.shape.hidden = 4096;
        other.shape.n = 512;
        other.shape.max_rows = 3;
        EXPECT_EQ(moe::phase_tokens_of(other, device), phase);
      }
    }
  }
}

// Weights are read once more in every phase, so a phase brings an expert 512 rows; then an H200 mostly multiplies.
TEST(MoePhases, BringEnoughRowsToAnExpertOnAGpu) {
  moe::Problem problem = moe_problem({2, 2}, 8, 8, 16384);
  EXPECT_EQ(moe::phase_tokens_of(problem, DeviceKind::kCuda), 1024);  // of 2 other ranks, 8 of 32 experts
  problem = moe_problem({2, 8}, 16, 8, 8192);
  EXPECT_EQ(moe::phase_tokens_of(problem, DeviceKind::kCuda), 2048);
  problem = moe_problem({2, 8}, 16, 8, 512);
  EXPECT_EQ(moe::phase_tokens_of(problem, DeviceKind::kCuda), 512);  // all of them
}

// Neighbours of a batch in a list are neighbours among the rows of an expert, and all rows are somebody's.
TEST(MoePlan, BatchesFillTheRowsOfEveryExpertWithoutAGap) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    const moe::Layout layout = some_layout(random);
    moe::Problem problem = moe_problem(layout.world, layout.local_experts(), 1, layout.max_tokens);
    const MoeLaunches launches(layout, problem, 1, random());
    const auto word = [&](int rank, uint64_t at) { return launches.value(1, layout.plan_at(rank, at)); };
    for (int node = 0; node < layout.world.nodes; ++node) {
      for (int i = 0; i < layout.node_experts(); ++i) {
        std::map<uint32_t, uint32_t> pieces;  // by their first row
        for (int local = 0; local < layout.world.ranks; ++local) {
          const int rank = layout.world.rank_at(node, local);
          for (int batch = 0; batch < layout.num_batches(); ++batch) {
            const uint64_t at = layout.source_word(batch, layout.visit_of_expert(rank, i));
            if (word(rank, at + 2) == 0) continue;
            ASSERT_TRUE(pieces.emplace(word(rank, at + 1), word(rank, at + 2)).second);
          }
        }
        uint32_t next = 0;
        for (const auto& [first, count] : pieces) {
          ASSERT_EQ(first, next);
          next += count;
        }
        ASSERT_EQ(next, word(layout.world.rank_at(node, 0), layout.expert_word(i) + 1));
      }
    }
  }
}

TEST(ForEachKey, SaysHowOftenEachOccursInTheOrderOfTheFirst) {
  ledger::Ledger ledger({1, 1}, [](uint64_t, const Place&) { return 0u; });
  ledger::LedgerMachine machine(ledger, {1, 1}, 0, 1);
  const std::vector<uint32_t> keys = {7, 3, 7, 7, 0, 3};
  std::vector<std::pair<uint32_t, int>> seen;
  for_each_key(
      machine, static_cast<int>(keys.size()), [&](int i) { return keys[i]; },
      [&](uint32_t key, int count) { seen.emplace_back(key, count); });
  EXPECT_EQ(seen, (std::vector<std::pair<uint32_t, int>>{{7, 3}, {3, 2}, {0, 1}}));
}

}  // namespace
}  // namespace mk::test
