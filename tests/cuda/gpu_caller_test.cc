// SPDX-License-Identifier: MIT
// tests/cuda/gpu_caller_test.cc — whoever calls: on the default stream, or from a thread that has not used CUDA.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <thread>

#include "base/cuda_api.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

constexpr Shape kProblem{130, 264, 136};

// What an operator is to these tests: its launches, and its call.
struct AgGemm {
  using Launch = AgGemmLaunch;
  static Launch make(World& world, uint64_t seed) { return {shape_of(world), kProblem, DType::kBf16, seed}; }
  template <class Args>
  static void run(World& world, const Args& args) {
    ag_gemm(world, args);
  }
};

template <SumOp kOp>
struct Sum {
  using Launch = SumLaunch;
  static Launch make(World& world, uint64_t seed) {
    return {shape_of(world), SumCase{kOp, kProblem, DType::kBf16, BOrder::kKN}, seed};
  }
  template <class Args>
  static void run(World& world, const Args& args) {
    call(kOp, world, args);
  }
};

template <class Op>
class GpuCaller : public testing::Test {};

struct OpName {
  template <class Op>
  static std::string GetName(int i) {
    return i == 0 ? "ag_gemm" : i == 1 ? "gemm_rs" : i == 2 ? "gemm_ar" : "gemm_ar_one_shot";
  }
};

using Ops = testing::Types<AgGemm, Sum<SumOp::kGemmRs>, Sum<SumOp::kGemmAr>, Sum<SumOp::kGemmArOneShot>>;
TYPED_TEST_SUITE(GpuCaller, Ops, OpName);

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

template <class Args>
std::vector<Args> with_streams(std::vector<Args> args, Stream stream) {
  for (Args& own : args) own.stream = stream;
  return args;
}

// Inputs arrive late on `writer`, the launch is on `stream`, results leave at once on `reader`.
template <class Op>
void expect_ordered(World& world, Stream stream, cudaStream_t writer, cudaStream_t reader) {
  for (uint64_t round = 0; round < 3; ++round) {
    typename Op::Launch stale = Op::make(world, 2 * round + 1);
    typename Op::Launch fresh = Op::make(world, 2 * round + 2);
    GpuLaunch gpu(world, stale);
    GpuLaunch source(world, fresh);
    GpuLaunch result(world, stale);  // poisoned
    const auto args = with_streams(gpu.args(), stream);
    if (round == 0) {  // the plan is made before the clock of the host function runs
      Op::run(world, args);
      world.synchronize();
      gpu.refill(stale);
    }
    keep_busy(writer);
    for (int rank = 0; rank < world.size(); ++rank) {
      copy(args[rank].a, source.args()[rank].a, writer);
      copy(args[rank].b, source.args()[rank].b, writer);
    }
    Op::run(world, args);
    for (int rank = 0; rank < world.size(); ++rank) copy(result.args()[rank].c, args[rank].c, reader);
    check_cuda(cudaStreamSynchronize(reader), "wait for the results");
    result.fetch_into(fresh);
    EXPECT_TRUE(fresh.is_right()) << "round " << round;
    world.synchronize();
  }
}

TYPED_TEST(GpuCaller, ANullStreamIsInTheOrderOfTheDefaultStream) {
  MK_NEEDS_GPU();
  for (const WorldShape& shape : {WorldShape{1, 1}, WorldShape{1, 2}, WorldShape{2, 2}}) {
    World world = gpu_world(shape);
    expect_ordered<TypeParam>(world, nullptr, cudaStreamLegacy, cudaStreamLegacy);
  }
}

TYPED_TEST(GpuCaller, TheDefaultStreamsOtherNameMeansTheSame) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  expect_ordered<TypeParam>(world, cudaStreamLegacy, cudaStreamLegacy, cudaStreamLegacy);
}

// A stream that is not made non-blocking is in order with the default stream: so are its copies with our launches.
TYPED_TEST(GpuCaller, ANullStreamIsInOrderWithBlockingStreams) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  cudaStream_t blocking[2] = {};
  for (cudaStream_t& stream : blocking) check_cuda(cudaStreamCreate(&stream), "create a stream");
  expect_ordered<TypeParam>(world, nullptr, blocking[0], blocking[1]);
  for (const cudaStream_t stream : blocking) cudaStreamDestroy(stream);
}

TYPED_TEST(GpuCaller, ANullStreamIsCapturedBetweenForkAndJoin) {
  MK_NEEDS_GPU();
  World world = gpu_world({2, 2});
  typename TypeParam::Launch first = TypeParam::make(world, 1);
  GpuLaunch gpu(world, first);
  const auto args = with_streams(gpu.args(), nullptr);
  TypeParam::run(world, args);
  world.synchronize();
  cudaStream_t own = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "create a stream");
  check_cuda(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal), "begin a capture");
  world.fork(own);
  TypeParam::run(world, args);
  TypeParam::run(world, args);
  world.join(own);
  check_cuda(cudaStreamEndCapture(own, &graph), "end a capture");
  check_cuda(cudaGraphInstantiate(&runnable, graph, 0), "instantiate a graph");
  for (uint64_t seed = 2; seed < 12; ++seed) {
    typename TypeParam::Launch fresh = TypeParam::make(world, seed);
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
TYPED_TEST(GpuCaller, AThreadThatHasNotUsedCudaMayMakeEveryCall) {
  MK_NEEDS_GPU();
  std::unique_ptr<World> world = std::make_unique<World>(gpu_world({2, 2}));
  typename TypeParam::Launch host = TypeParam::make(*world, 1);
  GpuLaunch gpu(*world, host);
  const auto on_default = with_streams(gpu.args(), nullptr);
  in_a_new_thread([&] { TypeParam::run(*world, gpu.args()); });  // also makes the plan
  in_a_new_thread([&] { TypeParam::run(*world, on_default); });
  in_a_new_thread([&] { world->fork(nullptr); });
  in_a_new_thread([&] { world->join(nullptr); });
  in_a_new_thread([&] { EXPECT_NE(world->rank_stream(0), nullptr); });
  in_a_new_thread([&] { EXPECT_GT(world->network_stats(0).puts, 0u); });
  in_a_new_thread([&] { world->synchronize(); });
  gpu.fetch_into(host);
  EXPECT_TRUE(host.is_right());
  in_a_new_thread([&] { world.reset(); });
}

TEST(GpuCall, WhatWasCurrentIsCurrentAgainAfterIt) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  AgGemmLaunch host = AgGemm::make(world, 1);
  GpuLaunch gpu(world, host);
  const CUcontext before = current_context();
  ag_gemm(world, gpu.args());
  world.synchronize();
  EXPECT_EQ(current_context(), before);
}

TEST(GpuCall, OneStreamForTwoRanksIsRefusedAndTheWorldGoesOn) {
  MK_NEEDS_GPU();
  World world = gpu_world({1, 2});
  AgGemmLaunch host = AgGemm::make(world, 1);
  GpuLaunch gpu(world, host);
  EXPECT_TRUE(refuses({"stream of rank 1 is also that of rank 0"},
                      [&] { ag_gemm(world, with_streams(gpu.args(), cudaStreamPerThread)); }));
  EXPECT_TRUE(gpu_runs_right(world, kProblem, DType::kBf16, 2));
}

}  // namespace
}  // namespace mk::test
