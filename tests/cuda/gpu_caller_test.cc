// SPDX-License-Identifier: MIT
// tests/cuda/gpu_caller_test.cc — calls on the default stream, and from a thread that has not used CUDA.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "base/cuda_api.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr Shape kProblem{130, 264, 136};

OpLaunch make(Op op, World& world, uint64_t seed) { return {op, shape_of(world), {kProblem, DType::kBf16}, seed}; }

class GpuCaller : public testing::TestWithParam<Op> {
 protected:
  const Op op = GetParam();
};

INSTANTIATE_TEST_SUITE_P(All, GpuCaller, testing::ValuesIn(kOps), case_name<testing::TestParamInfo<Op>>);

void copy(const Tensor& to, const Tensor& from, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to.data, from.data, from.rows * from.cols * size_of(from.dtype), cudaMemcpyDeviceToDevice,
                             stream),
             "copy");
}

// The stream is busy for so long that a launch which does not wait for it has read its inputs before.
void keep_busy(cudaStream_t stream) {
  const auto pause = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
  check_cuda(cudaLaunchHostFunc(stream, pause, nullptr), "keep a stream busy");
}

std::vector<OpArgs> with_streams(std::vector<OpArgs> args, Stream stream) {
  for (OpArgs& own : args) own.stream = stream;
  return args;
}

// Inputs arrive late on `writer`, the launch is on `stream`, results leave at once on `reader`.
void expect_ordered(Op op, World& world, Stream stream, cudaStream_t writer, cudaStream_t reader) {
  for (uint64_t round = 0; round < 3; ++round) {
    OpLaunch stale = make(op, world, 2 * round + 1);
    OpLaunch fresh = make(op, world, 2 * round + 2);
    GpuLaunch gpu(world, stale);
    GpuLaunch source(world, fresh);
    GpuLaunch result(world, stale);  // poisoned
    const auto args = with_streams(gpu.args(), stream);
    if (round == 0) {  // the plan is made before the clock of the host function runs
      call(op, world, args);
      world.synchronize();
      gpu.refill(stale);
    }
    keep_busy(writer);
    for (int rank = 0; rank < world.size(); ++rank) {
      for (size_t i = 0; i < args[rank].in.size(); ++i) copy(args[rank].in[i], source.args()[rank].in[i], writer);
    }
    call(op, world, args);
    for (int rank = 0; rank < world.size(); ++rank) {
      for (size_t i = 0; i < args[rank].out.size(); ++i) copy(result.args()[rank].out[i], args[rank].out[i], reader);
    }
    check_cuda(cudaStreamSynchronize(reader), "wait for the results");
    result.fetch_into(fresh);
    EXPECT_TRUE(fresh.is_right()) << "round " << round;
    world.synchronize();
  }
}

TEST_P(GpuCaller, ANullStreamIsInTheOrderOfTheDefaultStream) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{1, 2}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    expect_ordered(op, world, nullptr, cudaStreamLegacy, cudaStreamLegacy);
  }
}

TEST_P(GpuCaller, TheDefaultStreamsOtherNameMeansTheSame) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  expect_ordered(op, world, cudaStreamLegacy, cudaStreamLegacy, cudaStreamLegacy);
}

// A stream that is not made non-blocking is in order with the default stream: so are its copies with our launches.
TEST_P(GpuCaller, ANullStreamIsInOrderWithBlockingStreams) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  cudaStream_t blocking[2] = {};
  for (cudaStream_t& stream : blocking) check_cuda(cudaStreamCreate(&stream), "create a stream");
  expect_ordered(op, world, nullptr, blocking[0], blocking[1]);
  for (const cudaStream_t stream : blocking) cudaStreamDestroy(stream);
}

TEST_P(GpuCaller, ANullStreamIsCapturedBetweenForkAndJoin) {
  MK_NEEDS_GPU();
  World world = gpu_world({2, 2});
  OpLaunch first = make(op, world, 1);
  GpuLaunch gpu(world, first);
  const auto args = with_streams(gpu.args(), nullptr);
  call(op, world, args);
  world.synchronize();
  cudaStream_t own = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "create a stream");
  check_cuda(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal), "begin a capture");
  world.fork(own);
  call(op, world, args);
  call(op, world, args);
  world.join(own);
  check_cuda(cudaStreamEndCapture(own, &graph), "end a capture");
  check_cuda(cudaGraphInstantiate(&runnable, graph, 0), "instantiate a graph");
  for (uint64_t seed = 2; seed < 12; ++seed) {
    OpLaunch fresh = make(op, world, seed);
    gpu.refill(fresh);
    check_cuda(cudaGraphLaunch(runnable, own), "launch a graph");
    check_cuda(cudaStreamSynchronize(own), "wait for a graph");
    gpu.fetch_into(fresh);
    EXPECT_TRUE(fresh.is_right()) << "seed " << seed;
  }
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(own);
}

CUcontext current_context() {
  CUcontext context = nullptr;
  check_cuda(cuda_driver().current_context(&context), "name the current context");
  return context;
}

// Runs body() in a new thread, which has no context before and after.
void in_a_new_thread(const std::function<void()>& body) {
  std::exception_ptr trouble;
  std::thread([&] {
    try {
      EXPECT_EQ(current_context(), nullptr);
      body();
      EXPECT_EQ(current_context(), nullptr) << "the thread is left as it was";
    } catch (...) {
      trouble = std::current_exception();
    }
  }).join();
  if (trouble != nullptr) std::rethrow_exception(trouble);
}

// Every public call, each from a thread of its own that has not used CUDA: as a backward pass does.
TEST_P(GpuCaller, AThreadThatHasNotUsedCudaMayMakeEveryCall) {
  MK_NEEDS_GPU();
  std::unique_ptr<World> world = std::make_unique<World>(gpu_world({2, 2}));
  OpLaunch host = make(op, *world, 1);
  auto gpu = std::make_unique<GpuLaunch>(*world, host);
  const auto on_default = with_streams(gpu->args(), nullptr);
  in_a_new_thread([&] { call(op, *world, gpu->args()); });  // also makes the plan
  in_a_new_thread([&] { call(op, *world, on_default); });
  in_a_new_thread([&] { world->fork(nullptr); });
  in_a_new_thread([&] { world->join(nullptr); });
  in_a_new_thread([&] { EXPECT_NE(world->rank_stream(0), nullptr); });
  in_a_new_thread([&] { world->synchronize(); });
  in_a_new_thread([&] { EXPECT_GT(world->network_stats(0).puts, 0u); });
  gpu->fetch_into(host);
  EXPECT_TRUE(host.is_right());
  in_a_new_thread([&] { gpu.reset(); });
  in_a_new_thread([&] { world.reset(); });
}

TEST(GpuCall, WhatWasCurrentIsCurrentAgainAfterIt) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  OpLaunch host = make(Op::kAgGemm, world, 1);
  GpuLaunch gpu(world, host);
  const CUcontext before = current_context();
  gpu.enqueue(world);
  world.synchronize();
  EXPECT_EQ(current_context(), before);
}

TEST(GpuCall, OneStreamForTwoRanksIsRefusedAndTheWorldGoesOn) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  OpLaunch host = make(Op::kAgGemm, world, 1);
  GpuLaunch gpu(world, host);
  EXPECT_TRUE(refuses({"stream of rank 1 is also that of rank 0"},
                      [&] { call(Op::kAgGemm, world, with_streams(gpu.args(), cudaStreamPerThread)); }));
  EXPECT_TRUE(gpu_runs_right(world, kProblem, DType::kBf16, 2));
}

}  // namespace
}  // namespace mk::test
