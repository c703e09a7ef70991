// SPDX-License-Identifier: MIT
// tests/sim/golden_prediction_test.cc — the same seed gives the same run as ever, to the picosecond.
//
// The numbers were recorded with a plain heap of events.  A change to scheduler, signals or network that is
// meant to be about speed must keep them; one that changes the model records them anew.
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
    {"ag_gemm", {1, 8}, 0, 108147288, 2862944704, 0x2c8b22139d5b9cc3},
    {"ag_gemm", {3, 4}, 1, 141512584, 4844066112, 0x48864bd734a4d5eb},
    {"gemm_rs", {1, 1}, 0, 12886742, 0, 0x120dc7056b932825},
    {"gemm_rs", {2, 8}, 1, 144769870, 1252964800, 0x30b9931249db0bd1},
    {"gemm_rs", {8, 8}, 2, 490799950, 5011859200, 0x607462d11ad276ee},
    {"gemm_ar", {2, 2}, 0, 86436982, 758332512, 0xd4c5fba95438a701},
    {"gemm_ar", {3, 4}, 1, 192078786, 4273274208, 0xd835c46be0ae22d4},
};

TEST(GoldenPrediction, TheSameSeedGivesTheSameRunToThePicosecond) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(testing::Message() << golden.op << " " << golden.world.nodes << "x" << golden.world.ranks << " seed "
                                    << golden.seed);
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
