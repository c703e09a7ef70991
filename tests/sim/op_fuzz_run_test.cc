// SPDX-License-Identifier: MIT
// tests/sim/op_fuzz_run_test.cc — a seed is a whole run of its operator: the same seed gives the same trace.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "target/sim/chrome_trace.h"
#include "tests/sim/op_runs.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

class OpFuzzRun : public testing::TestWithParam<Op> {
 protected:
  static std::string trace_of(uint64_t seed) {
    const auto run = run_of(GetParam(), seed, {}, Tracing::kOn);
    run->run();
    std::ostringstream out;
    sim::write_chrome_trace(out, run->core());
    return out.str();
  }
};

INSTANTIATE_TEST_SUITE_P(All, OpFuzzRun, testing::ValuesIn(kOps), case_name<testing::TestParamInfo<Op>>);

TEST_P(OpFuzzRun, TheSameSeedGivesTheSameTraceByteForByteAndOtherSeedsOthers) {
  std::set<std::string> traces;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string trace = trace_of(seed);
    EXPECT_EQ(trace, trace_of(seed)) << seed;
    traces.insert(trace);
  }
  EXPECT_EQ(traces.size(), 20u);
}

TEST_P(OpFuzzRun, EveryWorldUpToFourByFourIsDrawn) {
  std::set<std::pair<int, int>> worlds;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const WorldShape world = run_of(GetParam(), seed)->world();
    worlds.insert({world.nodes, world.ranks});
  }
  EXPECT_EQ(worlds.size(), 16u);
}

TEST_P(OpFuzzRun, WhatTheCallerFixesTheSeedDoesNotDraw) {
  const auto run = run_of(GetParam(), 5, {.nodes = 2, .ranks = 3, .m = 54, .n = 9, .k = 2, .launches = 4});
  EXPECT_EQ(run->describe().find("2x3, m 54, n 9, k 2, "), 0u) << run->describe();
  EXPECT_NE(run->describe().find("4 launches"), std::string::npos) << run->describe();
  run->run();
  EXPECT_FALSE(run->core().stopped());
}

TEST_P(OpFuzzRun, BadLimitsAreRefusedByName) {
  const auto draw = [](const FuzzLimits& limits) { run_of(GetParam(), 1, limits); };
  EXPECT_TRUE(refuses({"nodes is 0"}, [&] { draw({.nodes = 0}); }));
  EXPECT_TRUE(refuses({"ranks_per_node is -1"}, [&] { draw({.ranks = -1}); }));
  EXPECT_TRUE(refuses({"nodes x ranks", "at most 64"}, [&] { draw({.nodes = 65, .ranks = 1}); }));
  EXPECT_TRUE(refuses({"m is 0"}, [&] { draw({.nodes = 2, .ranks = 2, .m = 0}); }));
  EXPECT_TRUE(refuses({"n is 5000", "at most"}, [&] { draw({.n = 5000}); }));
  EXPECT_TRUE(refuses({"launches is 0"}, [&] { draw({.launches = 0}); }));
  if (GetParam() == Op::kGemmArOneShot) return;  // takes any m
  EXPECT_TRUE(refuses({"m is 7", "multiple"}, [&] { draw({.nodes = 2, .ranks = 2, .m = 7}); }));
}

}  // namespace
}  // namespace mk::test
