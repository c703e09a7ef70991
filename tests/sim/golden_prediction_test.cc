// SPDX-License-Identifier: MIT
// tests/sim/golden_prediction_test.cc — the same seed gives the same run as ever, to the picosecond.
//
// A change to scheduler, signals or network that is meant to be about speed must keep the numbers; one that changes the
// model records them anew.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "ops/ag_gemm/ag_gemm_configs.h"
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/dense/gemm_sim.h"
#include "ops/gemm_ar/gemm_ar_configs.h"
#include "ops/gemm_ar/gemm_ar_problem.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "ops/gemm_rs/gemm_rs_configs.h"
#include "target/sim/chrome_trace.h"

namespace mk::test {
namespace {

struct Golden {
  const char* op;
  WorldShape world;
  int workers_per_sm;
  uint64_t seed;
  sim::Time ended;
  sim::Time waited;  // by all workers
  uint64_t trace;    // FNV-1a
};

uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

template <class Run>
void expect_golden(const Golden& golden, sim::SimSpec spec, const Run& run) {
  spec.seed = golden.seed;
  spec.workers_per_sm = golden.workers_per_sm;
  spec.traced = true;
  sim::SimWorld world(spec);
  run(world);
  ASSERT_FALSE(world.core().stopped()) << world.core().complaints().front().text;
  sim::Time waited = 0;
  for (const sim::Worker& worker : world.core().workers) waited += worker.waiting;
  std::ostringstream trace;
  sim::write_chrome_trace(trace, world.core());
  EXPECT_EQ(world.ended(), golden.ended);
  EXPECT_EQ(waited, golden.waited);
  EXPECT_EQ(fnv1a(trace.str()), golden.trace);
}

template <class Layout>
void expect_golden_sum(const Golden& golden, const Layout& layout) {
  expect_golden(golden, dense::sim_spec(layout, nullptr),
                [&](sim::SimWorld& world) { dense::simulate_world(world, layout, 2, nullptr); });
}

constexpr Golden kGolden[] = {
    {"ag_gemm", {1, 8}, 1, 0, 106433630, 2691695328, 0xbeebebb7398d8b81},
    {"ag_gemm", {3, 4}, 1, 1, 136371610, 4661896032, 0xd099f87068e2885b},
    {"gemm_rs", {1, 1}, 1, 0, 16187168, 0, 0x5beab9109fb21e05},
    {"gemm_rs", {2, 8}, 1, 1, 144410480, 1241464320, 0x94dc5b0e34e36641},
    {"gemm_rs", {8, 8}, 1, 2, 490440560, 4965857280, 0x4456cf7c49ff2fd3},
    {"gemm_ar", {2, 2}, 1, 0, 89737408, 811139328, 0x4ffb8a74a5a8672},
    {"gemm_ar", {3, 4}, 1, 1, 193549304, 4343859072, 0x6ac16b11f7c5c783},
    {"ag_gemm", {3, 4}, 8, 1, 622857310, 73544743008, 0xa3f4a93f5f764643},
    {"gemm_rs", {2, 8}, 8, 1, 788082654, 1241464320, 0x73f2e9a90e169c9},
    {"gemm_ar", {3, 4}, 8, 1, 1157801480, 19777145016, 0x432b568ba3d27f3e},
};

TEST(GoldenPrediction, TheSameSeedGivesTheSameRunToThePicosecond) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(testing::Message() << golden.op << " " << golden.world.nodes << "x" << golden.world.ranks << " seed "
                                    << golden.seed << ", " << golden.workers_per_sm << " workers an SM");
    const int64_t rows = 256 * golden.world.size();
    const std::string op = golden.op;
    if (op == "ag_gemm") {
      const ag_gemm_op::Problem problem{golden.world, rows, 512, 1024, DType::kBf16};
      const Roster roles = ag_gemm_op::roster(2, golden.world.nodes > 1 ? 1 : 0, 13);
      const auto layout = ag_gemm_op::make_layout(problem, ag_gemm_op::kSm90Tile, roles);
      expect_golden_sum(golden, layout);
      continue;
    }
    const dense::Problem problem{golden.world, rows, 1024, 256, DType::kBf16};
    const int others = golden.world.size() > 1 ? 2 : 0;
    if (op == "gemm_rs") {
      const Roster roles = gemm_rs_op::roster(others, 14);
      expect_golden_sum(golden, gemm_rs_op::make_layout(problem, gemm_rs_op::kSm90Tile, roles));
    } else {
      const Roster roles = gemm_ar_op::roster(AllReducePath::kTwoShot, others, others, 12);
      expect_golden_sum(golden, gemm_ar_op::make_two_shot(problem, gemm_ar_op::kSm90Tile, roles));
    }
  }
}

}  // namespace
}  // namespace mk::test
