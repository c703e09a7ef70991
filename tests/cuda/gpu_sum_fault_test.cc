// SPDX-License-Identifier: MIT
// tests/cuda/gpu_sum_fault_test.cc — a sum over ranks of which one never starts, on a GPU: all others say so in time.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <tuple>

#include "tests/cuda/gpu_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr int kMissing = 1;
constexpr Options kImpatient{.timeout_ms = 200};

class GpuSumFault : public testing::TestWithParam<std::tuple<SumOp, WorldShape>> {
 protected:
  const SumOp op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());

  void launch_all_but_one(World& world, SumLaunch& host, const Split& split = {}) {
    const GpuLaunch<SumLaunch> gpu(world, host);
    const runtime::Plan& plan = plan_of(world.state(), host, split);
    for (int rank = 0; rank < shape.size(); ++rank) {
      if (rank != kMissing) launch_rank(world.state(), plan, op, rank, gpu.args()[rank]);
    }
    EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank ", "waited 200 ms for ", "[", "to reach ", "launch 1, "},
                       [&] { world.synchronize(); }));
  }
};

INSTANTIATE_TEST_SUITE_P(All, GpuSumFault,
                         testing::Combine(testing::ValuesIn(kSumOps),
                                          testing::Values(WorldShape{1, 2}, WorldShape{2, 1}, WorldShape{2, 2})),
                         joined_names);

TEST_P(GpuSumFault, ARankThatNeverStartsIsReportedByAllOthersAndANewWorldWorks) {
  MK_NEEDS_GPU();
  constexpr Shape kProblem{130, 264, 136};
  World world = gpu_world(shape, kImpatient);
  SumLaunch host(shape, {op, kProblem, DType::kBf16}, 1);
  const auto began = std::chrono::steady_clock::now();
  launch_all_but_one(world, host);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));

  std::set<int> reporting;
  for (const FaultRecord& record : world.state().faults()) {
    reporting.insert(record.rank);
    EXPECT_TRUE(record.tile >= 0 || record.kind == FaultKind::kUnsettled) << "role " << record.role;
  }
  for (int rank = 0; rank < shape.size(); ++rank) EXPECT_EQ(reporting.contains(rank), rank != kMissing) << rank;

  EXPECT_TRUE(world.failed());
  EXPECT_THROW(call(op, world, host.args()), Error);
  World another = gpu_world(shape);
  EXPECT_TRUE(gpu_runs_right(another, op, kProblem, {.dtype = DType::kBf16, .launches = 2}));
}

// More tiles in one block than its pipeline has stages, none of which can be delivered.
TEST_P(GpuSumFault, ABlockWithDozensOfTilesThatNobodyTakesLeavesToo) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape, kImpatient);
  SumLaunch host(shape, {op, {600, 520, 24}, DType::kBf16}, 1);
  launch_all_but_one(world, host, smallest_split(op, shape));
}

}  // namespace
}  // namespace mk::test
