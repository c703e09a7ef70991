// SPDX-License-Identifier: MIT
// tests/cuda/gpu_graph_test.cc — launches follow the caller's streams and can be captured in a CUDA graph.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "base/cuda_api.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::test {
namespace {

struct OwnStream {
  OwnStream() { check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream"); }
  ~OwnStream() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
};

constexpr Shape kProblem{130, 264, 136};

class GpuGraphs : public testing::TestWithParam<WorldShape> {};

TEST_P(GpuGraphs, CapturedOnceItReplaysAHundredTimesWithNewInputs) {
  MK_NEEDS_GPU();
  World world = World::local(GetParam().nodes, GetParam().ranks, DeviceKind::kCuda, {.timeout_ms = 5000});
  const Shape problem = world.size() > 4 ? Shape{9, 24, 16} : kProblem;  // the host checks every replay
  AgGemmLaunch first(shape_of(world), problem, DType::kBf16, 1);
  GpuLaunch gpu(world, first);
  ag_gemm(world, gpu.args());  // makes the plan
  world.synchronize();

  const OwnStream own;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  // Global mode: not even the proxies' CUDA calls on other threads may disturb the capture.
  check_cuda(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal), "begin a capture");
  world.fork(own.stream);
  ag_gemm(world, gpu.args());
  world.join(own.stream);
  check_cuda(cudaStreamEndCapture(own.stream, &graph), "end a capture");
  check_cuda(cudaGraphInstantiate(&runnable, graph, 0), "instantiate a graph");

  for (int replay = 0; replay < 100; ++replay) {
    AgGemmLaunch fresh(shape_of(world), problem, DType::kBf16, seed_of(7, replay));
    gpu.refill(fresh);
    check_cuda(cudaGraphLaunch(runnable, own.stream), "launch a graph");
    world.synchronize();
    gpu.fetch_into(fresh);
    ASSERT_TRUE(fresh.is_right()) << "replay " << replay;
  }
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
}

INSTANTIATE_TEST_SUITE_P(All, GpuGraphs, testing::Values(WorldShape{2, 2}, WorldShape{2, 8}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST(GpuGraph, AShapeSeenFirstInACaptureIsRefusedAndTheWorldGoesOn) {
  MK_NEEDS_GPU();
  World world = World::local(1, 2, DeviceKind::kCuda, {.timeout_ms = 5000});
  AgGemmLaunch host(shape_of(world), kProblem, DType::kBf16, 1);
  GpuLaunch gpu(world, host);
  const OwnStream own;
  check_cuda(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal), "begin a capture");
  world.fork(own.stream);
  EXPECT_THROW(ag_gemm(world, gpu.args()), Error);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(own.stream, &graph);  // the forked streams were not joined: CUDA says so
  cudaGetLastError();
  if (graph != nullptr) cudaGraphDestroy(graph);
  EXPECT_TRUE(gpu_runs_right(world, kProblem, DType::kBf16, 2));
}

TEST(GpuStream, ALaunchSeesWhatTheCallersStreamWroteBefore) {
  MK_NEEDS_GPU();
  World world = World::local(1, 2, DeviceKind::kCuda, {.timeout_ms = 5000});
  AgGemmLaunch stale(shape_of(world), kProblem, DType::kBf16, 1);
  AgGemmLaunch fresh(shape_of(world), kProblem, DType::kBf16, 2);
  const GpuLaunch gpu(world, stale);
  const GpuLaunch source(world, fresh);
  const OwnStream streams[2];
  std::vector<AgGemmArgs> args = gpu.args();
  for (int rank = 0; rank < 2; ++rank) {
    args[rank].stream = streams[rank].stream;
    const auto copy = [&](const Tensor& to, const Tensor& from) {
      check_cuda(
          cudaMemcpyAsync(to.data, from.data, GpuLaunch::bytes_of(to), cudaMemcpyDeviceToDevice, streams[rank].stream),
          "copy");
    };
    copy(args[rank].a, source.args()[rank].a);
    copy(args[rank].b, source.args()[rank].b);
  }
  ag_gemm(world, args);
  world.synchronize();
  gpu.fetch_into(fresh);
  EXPECT_TRUE(fresh.is_right());
}

}  // namespace
}  // namespace mk::test
