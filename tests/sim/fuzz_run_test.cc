// SPDX-License-Identifier: MIT
// tests/sim/fuzz_run_test.cc — a seed is a whole run: the same seed gives the same trace, byte for byte.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "ops/ag_gemm/ag_gemm_fuzz.h"
#include "target/sim/chrome_trace.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

using ag_gemm_op::FuzzRun;

std::string trace_of(uint64_t seed) {
  FuzzRun run(seed, {}, Tracing::kOn);
  run.run();
  std::ostringstream out;
  sim::write_chrome_trace(out, run.core());
  return out.str();
}

TEST(FuzzRun, TheSameSeedGivesTheSameTraceByteForByte) {
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(trace_of(seed), trace_of(seed)) << seed;
}

TEST(FuzzRun, OtherSeedsGiveOtherRuns) {
  std::set<std::string> traces;
  for (uint64_t seed = 1; seed <= 20; ++seed) traces.insert(trace_of(seed));
  EXPECT_EQ(traces.size(), 20u);
}

TEST(FuzzRun, EveryWorldUpToFourByFourIsDrawn) {
  std::set<std::pair<int, int>> worlds;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const FuzzRun run(seed, {});
    worlds.insert({run.layout().world.nodes, run.layout().world.ranks});
  }
  EXPECT_EQ(worlds.size(), 16u);
}

TEST(FuzzRun, WhatTheCallerFixesTheSeedDoesNotDraw) {
  FuzzRun run(5, {.nodes = 2, .ranks = 3, .m = 54, .n = 9, .k = 2, .launches = 4});
  EXPECT_EQ(run.describe().find("2x3, m 54, n 9, k 2, "), 0u) << run.describe();
  EXPECT_NE(run.describe().find("4 launches"), std::string::npos) << run.describe();
  run.run();
  EXPECT_FALSE(run.core().stopped());
}

TEST(FuzzRun, BadLimitsAreRefusedByName) {
  EXPECT_TRUE(refuses({"nodes is 0"}, [] { FuzzRun(1, {.nodes = 0}); }));
  EXPECT_TRUE(refuses({"ranks_per_node is -1"}, [] { FuzzRun(1, {.ranks = -1}); }));
  EXPECT_TRUE(refuses({"nodes x ranks", "at most 64"}, [] { FuzzRun(1, {.nodes = 65, .ranks = 1}); }));
  EXPECT_TRUE(refuses({"m is 7", "multiple"}, [] { FuzzRun(1, {.nodes = 2, .ranks = 2, .m = 7}); }));
  EXPECT_TRUE(refuses({"n is 5000", "at most"}, [] { FuzzRun(1, {.n = 5000}); }));
  EXPECT_TRUE(refuses({"launches is 0"}, [] { FuzzRun(1, {.launches = 0}); }));
}

}  // namespace
}  // namespace mk::test
