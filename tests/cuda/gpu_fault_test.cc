// SPDX-License-Identifier: MIT
// tests/cuda/gpu_fault_test.cc — a rank that never starts, on a GPU: all others say so and the process goes on.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <tuple>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr Shape kProblem{130, 264, 136};
constexpr int kMissing = 1;
constexpr Options kImpatient{.timeout_ms = 200};

void launch_all_but_one(World& world, OpLaunch& host, const GpuLaunch& gpu, const Split& split = {}) {
  const OpSettings settings{split};
  const runtime::Plan& plan = plan_of(world.state(), host, settings);
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != kMissing) row_of(host.op()).launch_rank(world.state(), plan, rank, gpu.args()[rank]);
  }
}

testing::AssertionResult times_out(World& world) {
  return throws(ErrorCode::kTimeout, {"rank ", "waited 200 ms for ", "[", "to reach ", "launch 1"},
                [&] { world.synchronize(); });
}

class GpuFault : public testing::TestWithParam<std::tuple<Op, WorldShape>> {
 protected:
  const Op op = std::get<0>(GetParam());
  const WorldShape shape = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, GpuFault,
                         testing::Combine(testing::ValuesIn(kOps),
                                          testing::Values(WorldShape{1, 2}, WorldShape{2, 1}, WorldShape{2, 2})),
                         joined_names);
INSTANTIATE_TEST_SUITE_P(Larger, GpuFault,
                         testing::Combine(testing::Values(Op::kAgGemm), testing::Values(WorldShape{2, 4})),
                         joined_names);

TEST_P(GpuFault, ARankThatNeverStartsIsReportedByAllOthersAndANewWorldWorks) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape, kImpatient);
  OpLaunch host(op, shape, {kProblem, DType::kBf16});
  const GpuLaunch gpu(world, host);
  const auto began = std::chrono::steady_clock::now();
  launch_all_but_one(world, host, gpu);
  EXPECT_TRUE(times_out(world));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));

  std::set<int> reporting;
  for (const FaultRecord& record : world.state().faults()) {
    reporting.insert(record.rank);
    if (op == Op::kAgGemm) continue;  // a worker of it may stop before it has a tile
    EXPECT_TRUE(record.tile >= 0 || record.kind == FaultKind::kUnsettled) << "role " << record.role;
  }
  for (int rank = 0; rank < shape.size(); ++rank) EXPECT_EQ(reporting.contains(rank), rank != kMissing) << rank;

  EXPECT_TRUE(world.failed());
  EXPECT_THROW(gpu.enqueue(world), Error);
  World another = gpu_world(shape);
  EXPECT_TRUE(gpu_runs_right(another, op, kProblem, {.dtype = DType::kBf16, .launches = 3}));
}

// More tiles in one block than its pipeline has stages, without rows or with nobody to take them: its warps must stay
// together.
TEST_P(GpuFault, ABlockWithDozensOfTilesThatNeverComeOrGoLeavesToo) {
  MK_NEEDS_GPU();
  World world = gpu_world(shape, kImpatient);
  OpLaunch host(op, shape, {row_of(op).sizes().gpu_crowded, DType::kBf16});
  const GpuLaunch gpu(world, host);
  launch_all_but_one(world, host, gpu, row_of(op).smallest_split(shape));
  EXPECT_TRUE(times_out(world));
}

// What the World does, whoever waits in it.
class GpuFaultOfOne : public testing::TestWithParam<WorldShape> {};

INSTANTIATE_TEST_SUITE_P(All, GpuFaultOfOne,
                         testing::Values(WorldShape{1, 2}, WorldShape{2, 1}, WorldShape{2, 2}, WorldShape{2, 4}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(GpuFaultOfOne, IsNotHiddenByLaunchesQueuedBehindIt) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam(), kImpatient);
  OpLaunch host(Op::kAgGemm, GetParam(), {kProblem, DType::kBf16});
  const GpuLaunch gpu(world, host);
  for (int i = 0; i < 5; ++i) launch_all_but_one(world, host, gpu);
  EXPECT_TRUE(
      throws(ErrorCode::kTimeout, {"waited 200 ms for", "it holds 0", "launch 1"}, [&] { world.synchronize(); }));
}

// A block whose jobs and whose worker inside both wait for the same rank has a record of each.
TEST(GpuFaultInside, TheWorkerInsideAndTheOneThatComputesBothSayWhatTheyWaitedFor) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2}, kImpatient);
  OpLaunch host(Op::kAgGemm, {1, 2}, {{600, 520, 136}, DType::kBf16});
  const GpuLaunch gpu(world, host);
  launch_all_but_one(world, host, gpu, {{"compute", 1}});
  EXPECT_TRUE(times_out(world));
  std::set<int> waited;
  for (const FaultRecord& record : world.state().faults()) waited.insert(record.role);
  EXPECT_EQ(waited, (std::set<int>{ag_gemm_op::Layout::kIntra, ag_gemm_op::Layout::kCompute}));
}

}  // namespace
}  // namespace mk::test
