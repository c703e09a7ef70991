// SPDX-License-Identifier: MIT
// tests/sim/golden_prediction_test.cc — the same seed gives the same run as ever, to the picosecond.
//
// A change to scheduler, signals or network that is meant to be about speed must keep the numbers; one that changes the
// model records them anew.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "target/sim/chrome_trace.h"
#include "tests/sim/op_runs.h"

namespace mk::test {
namespace {

struct Golden {
  Op op;
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

OpCut cut_of(Op op) {
  if (op == Op::kAgGemm) return {{256, 512, 1024}, Tiling::kGpu, {{"compute", 13}, {"intra", 2}, {"send", 1}}};
  const int compute = op == Op::kGemmRs ? 14 : 12;
  return {{256, 1024, 256}, Tiling::kGpu, {{"compute", compute}, {"intra", 2}, {"reduce", 2}}};
}

constexpr Golden kGolden[] = {
    {Op::kAgGemm, {1, 8}, 1, 0, 106433630, 2691695328, 0xbeebebb7398d8b81},
    {Op::kAgGemm, {3, 4}, 1, 1, 136371610, 4661896032, 0xd099f87068e2885b},
    {Op::kGemmRs, {1, 1}, 1, 0, 16187168, 0, 0x5beab9109fb21e05},
    {Op::kGemmRs, {2, 8}, 1, 1, 144410480, 1241464320, 0x94dc5b0e34e36641},
    {Op::kGemmRs, {8, 8}, 1, 2, 490440560, 4965857280, 0x4456cf7c49ff2fd3},
    {Op::kGemmAr, {2, 2}, 1, 0, 89737408, 811139328, 0x4ffb8a74a5a8672},
    {Op::kGemmAr, {3, 4}, 1, 1, 193549304, 4343859072, 0x6ac16b11f7c5c783},
    {Op::kAgGemm, {3, 4}, 8, 1, 622857310, 73544743008, 0xa3f4a93f5f764643},
    {Op::kGemmRs, {2, 8}, 8, 1, 788082654, 1241464320, 0x73f2e9a90e169c9},
    {Op::kGemmAr, {3, 4}, 8, 1, 1157801480, 19777145016, 0x432b568ba3d27f3e},
};

TEST(GoldenPrediction, TheSameSeedGivesTheSameRunToThePicosecond) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(name_of(golden.op) + " " + name_of(golden.world) + " seed " + std::to_string(golden.seed) + ", " +
                 std::to_string(golden.workers_per_sm) + " workers an SM");
    const auto world = simulated(golden.op, golden.world, cut_of(golden.op), 2, [&](sim::SimSpec& spec) {
      spec.seed = golden.seed;
      spec.workers_per_sm = golden.workers_per_sm;
      spec.traced = true;
    });
    ASSERT_FALSE(world->core().stopped()) << world->core().complaints().front().text;
    sim::Time waited = 0;
    for (const sim::Worker& worker : world->core().workers) waited += worker.waiting;
    std::ostringstream trace;
    sim::write_chrome_trace(trace, world->core());
    EXPECT_EQ(world->ended(), golden.ended);
    EXPECT_EQ(waited, golden.waited);
    EXPECT_EQ(fnv1a(trace.str()), golden.trace);
  }
}

}  // namespace
}  // namespace mk::test
