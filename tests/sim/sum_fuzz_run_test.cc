// SPDX-License-Identifier: MIT
// tests/sim/sum_fuzz_run_test.cc — seeds of the operators that sum over ranks are whole runs, too.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "ops/gemm_ar/gemm_ar_fuzz.h"
#include "ops/gemm_rs/gemm_rs_fuzz.h"
#include "target/sim/chrome_trace.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

template <class AnyRun>
class SumFuzzRun : public testing::Test {
 protected:
  static std::string trace_of(uint64_t seed) {
    AnyRun run(seed, {}, Tracing::kOn);
    run.run();
    std::ostringstream out;
    sim::write_chrome_trace(out, run.core());
    return out.str();
  }
};

using Runs = testing::Types<gemm_rs_op::FuzzRun, gemm_ar_op::TwoShotRun, gemm_ar_op::OneShotRun>;
TYPED_TEST_SUITE(SumFuzzRun, Runs);

TYPED_TEST(SumFuzzRun, TheSameSeedGivesTheSameTraceByteForByte) {
  for (uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(this->trace_of(seed), this->trace_of(seed)) << seed;
}

TYPED_TEST(SumFuzzRun, EveryWorldUpToFourByFourIsDrawn) {
  std::set<std::pair<int, int>> worlds;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const TypeParam run(seed, {});
    worlds.insert({run.layout().world.nodes, run.layout().world.ranks});
  }
  EXPECT_EQ(worlds.size(), 16u);
}

TYPED_TEST(SumFuzzRun, WhatTheCallerFixesTheSeedDoesNotDraw) {
  TypeParam run(5, {.nodes = 2, .ranks = 3, .m = 54, .n = 9, .k = 2, .launches = 4});
  EXPECT_EQ(run.describe().find("2x3, m 54, n 9, k 2, "), 0u) << run.describe();
  EXPECT_NE(run.describe().find("4 launches"), std::string::npos) << run.describe();
  run.run();
  EXPECT_FALSE(run.core().stopped());
}

TYPED_TEST(SumFuzzRun, BadLimitsAreRefusedByName) {
  EXPECT_TRUE(refuses({"nodes is 0"}, [] { TypeParam(1, {.nodes = 0}); }));
  EXPECT_TRUE(refuses({"m is 0"}, [] { TypeParam(1, {.nodes = 2, .ranks = 2, .m = 0}); }));
  EXPECT_TRUE(refuses({"n is 5000", "at most"}, [] { TypeParam(1, {.n = 5000}); }));
}

}  // namespace
}  // namespace mk::test
