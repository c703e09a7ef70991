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

// Captures call() on every stream of the World, and replays it.
class Captured {
 public:
  template <class Call>
  Captured(World& world, Call&& call) : world_(world) {
    call();  // makes the plan
    world.synchronize();
    cudaGraph_t graph = nullptr;
    // Global mode: not even the proxies' CUDA calls on other threads may disturb the capture.
    check_cuda(cudaStreamBeginCapture(own_.stream, cudaStreamCaptureModeGlobal), "begin a capture");
    world.fork(own_.stream);
    call();
    world.join(own_.stream);
    check_cuda(cudaStreamEndCapture(own_.stream, &graph), "end a capture");
    const cudaError_t made = cudaGraphInstantiate(&runnable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(made, "instantiate a graph");
  }
  Captured(const Captured&) = delete;
  ~Captured() { cudaGraphExecDestroy(runnable_); }

  void replay() {
    check_cuda(cudaGraphLaunch(runnable_, own_.stream), "launch a graph");
    world_.synchronize();
  }

 private:
  World& world_;
  const OwnStream own_;
  cudaGraphExec_t runnable_ = nullptr;
};

// Replays with inputs of their own, made by make(0) … make(count-1).
template <class Launch, class Make>
void expect_replays_right(Captured& captured, GpuLaunch<Launch>& gpu, int count, Make&& make) {
  for (int i = 0; i < count; ++i) {
    Launch fresh = make(i);
    gpu.refill(fresh);
    captured.replay();
    gpu.fetch_into(fresh);
    ASSERT_TRUE(fresh.is_right()) << "replay " << i;
  }
}

class GpuGraphs : public testing::TestWithParam<WorldShape> {};

TEST_P(GpuGraphs, CapturedOnceItReplaysAHundredTimesWithNewInputs) {
  MK_NEEDS_GPU();
  World world = gpu_world(GetParam());
  const Shape problem = world.size() > 4 ? Shape{9, 24, 16} : kProblem;  // the host checks every replay
  const auto make = [&](int i) { return AgGemmLaunch(shape_of(world), problem, DType::kBf16, seed_of(7, i)); };
  AgGemmLaunch first = make(-1);
  GpuLaunch gpu(world, first);
  Captured captured(world, [&] { ag_gemm(world, gpu.args()); });
  expect_replays_right(captured, gpu, 100, make);
}

INSTANTIATE_TEST_SUITE_P(All, GpuGraphs, testing::Values(WorldShape{2, 2}, WorldShape{2, 8}),
                         case_name<testing::TestParamInfo<WorldShape>>);

class GpuSumGraphs : public testing::TestWithParam<SumOp> {};

TEST_P(GpuSumGraphs, CapturedOnceItReplaysFiftyTimesWithNewInputs) {
  MK_NEEDS_GPU();
  World world = gpu_world({2, 2});
  const SumCase at{GetParam(), {37, 136, 72}, DType::kBf16};
  const auto make = [&](int i) { return SumLaunch(shape_of(world), at, seed_of(7, i)); };
  SumLaunch first = make(-1);
  GpuLaunch gpu(world, first);
  Captured captured(world, [&] { call(GetParam(), world, gpu.args()); });
  expect_replays_right(captured, gpu, 50, make);
}

INSTANTIATE_TEST_SUITE_P(All, GpuSumGraphs, testing::ValuesIn(kSumOps), case_name<testing::TestParamInfo<SumOp>>);

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
      check_cuda(cudaMemcpyAsync(to.data, from.data, decltype(gpu)::bytes_of(to), cudaMemcpyDeviceToDevice,
                                 streams[rank].stream),
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
