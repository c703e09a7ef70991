// SPDX-License-Identifier: MIT
// tests/sim/golden_prediction_test.cc — the same seed gives the same run as ever, to the picosecond.
//
// The numbers were recorded with a plain heap of events.  A change to scheduler, signals or network that is
// meant to be about speed must keep them; one that changes the model records them anew.
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
    {Op::kAgGemm, {1, 8}, 0, 108147288, 2862944704, 0x2c8b22139d5b9cc3},
    {Op::kAgGemm, {3, 4}, 1, 141512584, 4844066112, 0x48864bd734a4d5eb},
    {Op::kGemmRs, {1, 1}, 0, 12886742, 0, 0x120dc7056b932825},
    {Op::kGemmRs, {2, 8}, 1, 144769870, 1252964800, 0x30b9931249db0bd1},
    {Op::kGemmRs, {8, 8}, 2, 490799950, 5011859200, 0x607462d11ad276ee},
    {Op::kGemmAr, {2, 2}, 0, 86436982, 758332512, 0xd4c5fba95438a701},
    {Op::kGemmAr, {3, 4}, 1, 192078786, 4273274208, 0xd835c46be0ae22d4},
};

TEST(GoldenPrediction, TheSameSeedGivesTheSameRunToThePicosecond) {
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(name_of(golden.op) + " " + name_of(golden.world) + " seed " + std::to_string(golden.seed));
    const auto world = simulated(golden.op, golden.world, cut_of(golden.op), 2, [&](sim::SimSpec& spec) {
      spec.seed = golden.seed;
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
