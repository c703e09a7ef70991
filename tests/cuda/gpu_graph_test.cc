// SPDX-License-Identifier: MIT
// tests/cuda/gpu_graph_test.cc — launches follow the caller's streams and can be captured in a CUDA graph.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <tuple>

#include "base/cuda_api.h"
#include "tests/cuda/captured.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::test {
namespace {

constexpr Shape kProblem{130, 264, 136};

class GpuGraphs : public testing::TestWithParam<std::tuple<Op, WorldShape>> {};

INSTANTIATE_TEST_SUITE_P(All, GpuGraphs, testing::Combine(testing::ValuesIn(kOps), testing::Values(WorldShape{2, 2})),
                         joined_names);
INSTANTIATE_TEST_SUITE_P(Larger, GpuGraphs,
                         testing::Combine(testing::Values(Op::kAgGemm), testing::Values(WorldShape{2, 8})),
                         joined_names);

TEST_P(GpuGraphs, CapturedOnceItReplaysAHundredTimesWithNewInputs) {
  MK_NEEDS_GPU();
  const auto& [op, shape] = GetParam();
  World world = gpu_world(shape);
  // The host checks every replay.
  const OpCase at{shape.size() > 4 ? Shape{9, 24, 16} : row_of(op).sizes().gpu_replayed, DType::kBf16};
  OpLaunch first(op, shape, at, seed_of(7, -1));
  GpuLaunch gpu(world, first);
  Captured captured(world, [&] { gpu.enqueue(world); });
  for (int i = 0; i < 100; ++i) {
    OpLaunch fresh(op, shape, at, seed_of(7, i));
    gpu.refill(fresh);
    captured.replay();
    gpu.fetch_into(fresh);
    ASSERT_TRUE(fresh.is_right()) << "replay " << i;
  }
}

TEST(GpuGraph, AShapeSeenFirstInACaptureIsRefusedAndTheWorldGoesOn) {
  MK_NEEDS_GPU();
  World world = World::local(1, 2, DeviceKind::kCuda, {.timeout_ms = 5000});
  OpLaunch host(Op::kAgGemm, {1, 2}, {kProblem, DType::kBf16});
  GpuLaunch gpu(world, host);
  const OwnStream own;
  check_cuda(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal), "begin a capture");
  world.fork(own.stream);
  EXPECT_THROW(gpu.enqueue(world), Error);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(own.stream, &graph);  // the forked streams were not joined: CUDA says so
  cudaGetLastError();
  if (graph != nullptr) cudaGraphDestroy(graph);
  EXPECT_TRUE(gpu_runs_right(world, kProblem, DType::kBf16, 2));
}

TEST(GpuStream, ALaunchSeesWhatTheCallersStreamWroteBefore) {
  MK_NEEDS_GPU();
  World world = World::local(1, 2, DeviceKind::kCuda, {.timeout_ms = 5000});
  OpLaunch stale(Op::kAgGemm, {1, 2}, {kProblem, DType::kBf16}, 1);
  OpLaunch fresh(Op::kAgGemm, {1, 2}, {kProblem, DType::kBf16}, 2);
  const GpuLaunch gpu(world, stale);
  const GpuLaunch source(world, fresh);
  const OwnStream streams[2];
  std::vector<OpArgs> args = gpu.args();
  for (int rank = 0; rank < 2; ++rank) {
    args[rank].stream = streams[rank].stream;
    const auto copy = [&](const Tensor& to, const Tensor& from) {
      check_cuda(
          cudaMemcpyAsync(to.data, from.data, GpuLaunch::bytes_of(to), cudaMemcpyDeviceToDevice, streams[rank].stream),
          "copy");
    };
    for (size_t i = 0; i < args[rank].in.size(); ++i) copy(args[rank].in[i], source.args()[rank].in[i]);
  }
  call(Op::kAgGemm, world, args);
  world.synchronize();
  gpu.fetch_into(fresh);
  EXPECT_TRUE(fresh.is_right());
}

}  // namespace
}  // namespace mk::test
