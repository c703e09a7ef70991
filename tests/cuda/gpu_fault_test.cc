// SPDX-License-Identifier: MIT
// tests/cuda/gpu_fault_test.cc — a rank that never starts, on a GPU: all others say so and the process goes on.
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "ops/ag_gemm/ag_gemm_targets.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr Shape kProblem{130, 264, 136};
constexpr int kMissing = 1;

void launch_all_but_one(World& world, const GpuLaunch<AgGemmLaunch>& gpu, const Split& split = {}) {
  runtime::WorldState& state = world.state();
  const runtime::Plan& plan =
      ag_gemm_op::plan_for(state, ag_gemm_op::problem_of(state.shape(), state.members(), gpu.args()), {.split = split});
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != kMissing) ag_gemm_op::launch_rank(state, plan, rank, gpu.args()[rank]);
  }
}

class GpuFault : public testing::TestWithParam<WorldShape> {};

TEST_P(GpuFault, ARankThatNeverStartsIsReportedByAllOthersWithinTheDeadline) {
  MK_NEEDS_GPU();
  const WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCuda, {.timeout_ms = 200});
  AgGemmLaunch host(shape, kProblem, DType::kBf16, 1);
  GpuLaunch gpu(world, host);

  const auto began = std::chrono::steady_clock::now();
  launch_all_but_one(world, gpu);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank", "waited 200 ms for", "to reach ", "it holds 0", "launch 1"},
                     [&] { world.synchronize(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));

  std::set<int> reporting;
  for (const FaultRecord& record : world.state().faults()) reporting.insert(record.rank);
  for (int rank = 0; rank < shape.size(); ++rank) EXPECT_EQ(reporting.contains(rank), rank != kMissing) << rank;

  EXPECT_TRUE(world.failed());
  EXPECT_THROW(ag_gemm(world, gpu.args()), Error);
  World another = World::local(shape.nodes, shape.ranks, DeviceKind::kCuda, {.timeout_ms = 5000});
  EXPECT_TRUE(gpu_runs_right(another, kProblem, DType::kBf16, 3));
}

// More tiles without rows in one block than its pipeline has stages: its warps must stay together.
TEST_P(GpuFault, ABlockWithDozensOfTilesThatNeverComeLeavesToo) {
  MK_NEEDS_GPU();
  const WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCuda, {.timeout_ms = 200});
  AgGemmLaunch host(shape, {600, 520, 136}, DType::kBf16, 1);
  GpuLaunch gpu(world, host);
  const Split fewest{{"compute", 1}, {"intra", shape.ranks > 1 ? 1 : 0}, {"send", shape.nodes > 1 ? 1 : 0}};
  launch_all_but_one(world, gpu, fewest);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"waited 200 ms for"}, [&] { world.synchronize(); }));
}

// A block whose jobs and whose worker inside both wait for the same rank has a record of each.
TEST(GpuFaultInside, TheWorkerInsideAndTheOneThatComputesBothSayWhatTheyWaitedFor) {
  MK_NEEDS_GPU();
  World world = World::local(1, 2, DeviceKind::kCuda, {.timeout_ms = 200});
  AgGemmLaunch host({1, 2}, {600, 520, 136}, DType::kBf16, 1);
  GpuLaunch gpu(world, host);
  launch_all_but_one(world, gpu, {{"compute", 1}});
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"waited 200 ms for"}, [&] { world.synchronize(); }));
  std::set<int> waited;
  for (const FaultRecord& record : world.state().faults()) waited.insert(record.role);
  EXPECT_EQ(waited, (std::set<int>{ag_gemm_op::Layout::kIntra, ag_gemm_op::Layout::kCompute}));
}

TEST_P(GpuFault, LaunchesQueuedBehindTheOneThatFailedDoNotHideIt) {
  MK_NEEDS_GPU();
  const WorldShape shape = GetParam();
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCuda, {.timeout_ms = 200});
  AgGemmLaunch host(shape, kProblem, DType::kBf16, 1);
  GpuLaunch gpu(world, host);
  for (int i = 0; i < 5; ++i) launch_all_but_one(world, gpu);
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"waited 200 ms for", "launch 1"}, [&] { world.synchronize(); }));
}

INSTANTIATE_TEST_SUITE_P(All, GpuFault,
                         testing::Values(WorldShape{1, 2}, WorldShape{2, 1}, WorldShape{2, 2}, WorldShape{2, 4}),
                         case_name<testing::TestParamInfo<WorldShape>>);

}  // namespace
}  // namespace mk::test
