// SPDX-License-Identifier: MIT
// tests/cuda/gpu_nic_test.cu — the warp that plays the NIC: bytes and signals arrive, and no earlier than they may.
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <vector>

#include "base/atomics.h"
#include "base/cuda_api.h"
#include "bench/nic_fabric.h"
#include "bench/nics.h"
#include "bench/pace_spec.h"
#include "bench/paced_link.cuh"
#include "core/stamp.h"
#include "target/sm90/pipeline.cuh"
#include "tests/cuda/gpu_launch.h"

namespace mk::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kTimeoutNs = 5'000'000'000;

// One warp is the NIC; a thread of another is a worker that leaves when the host says so.
__global__ void nic_alone(const __grid_constant__ RankPace pace, const uint64_t* go, uint64_t launch, int num_buffers) {
  auto& buffers = *reinterpret_cast<sm90::BulkBuffers*>(sm90::block_memory());
  const sm90::BulkPieces pieces = buffers.joined(sm90::BulkBuffers::kBuffers - num_buffers);
  if (threadIdx.x == 0) sm90::BulkCopier::prepare(pieces);
  __syncthreads();
  if (threadIdx.x < 32) {
    PacedLink(pace).serve_puts(pieces, launch);
  } else if (threadIdx.x == 32) {
    const uint64_t began = sm90::clock_ns();
    while (sm90::SystemAtomics::load_acquire(go) < launch && sm90::clock_ns() - began < kTimeoutNs) {
    }
    PacedLink(pace).leave();
  }
}

// Rank 0 puts to rank 1.  Signal i of rank 1 is for puts numbered i modulo kSignals.
class GpuNic : public testing::TestWithParam<int> {
 protected:
  static constexpr uint64_t kWords = 1 << 20;
  static constexpr uint64_t kBytes = kWords * sizeof(uint64_t);
  static constexpr uint64_t kSignals = 3;

  void SetUp() override {
    MK_NEEDS_GPU();
    check_cuda(cudaMalloc(&data, 2 * kBytes), "allocate data");
    check_cuda(cudaMalloc(&signals, 2 * kSignals * sizeof(uint64_t)), "allocate signals");
    check_cuda(cudaHostAlloc(&go, sizeof(uint64_t), cudaHostAllocMapped), "allocate a word");
    std::vector<uint64_t> own(kWords);
    std::iota(own.begin(), own.end(), 1);
    check_cuda(cudaMemcpy(data, own.data(), kBytes, cudaMemcpyHostToDevice), "copy to the device");
    check_cuda(cudaMemset(data + kWords, 0, kBytes), "clear data");
    check_cuda(cudaMemset(signals, 0, 2 * kSignals * sizeof(uint64_t)), "clear signals");
    *go = 0;
    add_window(data, kBytes);
    add_window(signals, kSignals * sizeof(uint64_t));
  }
  void TearDown() override {
    cudaFree(data);
    cudaFree(signals);
    cudaFreeHost(go);
  }

  void add_window(uint64_t* words, uint64_t bytes) {
    auto* const first = reinterpret_cast<std::byte*>(words);
    windows.add({first, first + bytes}, bytes);
  }

  // What both ranks have.
  static std::vector<uint64_t> read(const uint64_t* words, uint64_t count) {
    std::vector<uint64_t> values(2 * count);
    check_cuda(cudaMemcpy(values.data(), words, values.size() * sizeof(uint64_t), cudaMemcpyDeviceToHost),
               "copy from the device");
    return values;
  }

  Command command(uint64_t offset, uint64_t bytes, uint32_t signal) const {
    return {offset, offset, bytes, 0, 0, 1, signal, 1, 1, 0, 0};
  }

  // A launch during which these puts are made; gives the time from the first put to the last completion.
  double launch(NicFabric& fabric, const Nics& nics, const std::vector<Command>& commands) {
    const RankPace pace{{}, nics.queue(0)};
    const int shared_bytes = static_cast<int>(sizeof(sm90::BulkBuffers)) + 1024;
    check_cuda(cudaFuncSetAttribute(nic_alone, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
               "reserve shared memory");
    nic_alone<<<1, 64, shared_bytes>>>(pace, go, ++launches, GetParam());
    check_cuda(cudaGetLastError(), "launch");
    const Clock::time_point began = Clock::now();
    const Clock::time_point give_up = began + std::chrono::nanoseconds(kTimeoutNs);
    std::vector<uint64_t> tickets;
    for (size_t i = 0; tickets.size() < commands.size() && Clock::now() < give_up;) {
      if (i < commands.size() && fabric.put(commands[i], i) == PutResult::kSent) ++i;
      EXPECT_EQ(fabric.poll(tickets), PutResult::kSent);
    }
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - began).count();
    HostAtomics::store_release(go, launches);
    check_cuda(cudaDeviceSynchronize(), "finish a launch");
    std::vector<uint64_t> expected(commands.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(tickets, expected);
    return us;
  }

  WindowRegistry windows;
  uint64_t* data = nullptr;
  uint64_t* signals = nullptr;
  uint64_t* go = nullptr;
  uint64_t launches = 0;
};

INSTANTIATE_TEST_SUITE_P(Rings, GpuNic, testing::Values(1, 2, 5), testing::PrintToStringParamName());

TEST_P(GpuNic, BytesAndSignalsOfEveryPutArriveInLaunchAfterLaunch) {
  const Nics nics({2, 1}, 0);
  NicFabric fabric(nics.queue(0), windows, 0);
  // More than a warp holds and the queue has places, of no bytes, of few, of a slice and of several.
  constexpr uint64_t kSizes[] = {0, 16, 4096, 32 << 10, 48, (100 << 10) + 16};
  constexpr int kLaunches = 3;
  uint64_t offset = 0;
  uint64_t number = 0;
  for (int i = 0; i < kLaunches; ++i) {
    std::vector<Command> commands;
    for (; commands.size() < 300 && offset + kSizes[number % 6] <= kBytes * (i + 1) / kLaunches; ++number) {
      commands.push_back(command(offset, kSizes[number % 6], number % kSignals));
      offset += kSizes[number % 6];
    }
    launch(fabric, nics, commands);
  }
  ASSERT_GT(number, 200u);
  const std::vector<uint64_t> paid = read(signals, kSignals);
  for (uint64_t signal = 0; signal < kSignals; ++signal) {
    EXPECT_EQ(paid[kSignals + signal], (number + kSignals - 1 - signal) / kSignals) << signal;
    EXPECT_EQ(paid[signal], 0u) << "of the rank that put";
  }
  const std::vector<uint64_t> words = read(data, kWords);
  for (uint64_t word = 0; word < kWords; ++word) {
    ASSERT_EQ(words[kWords + word], word < offset / sizeof(uint64_t) ? word + 1 : 0) << word;
  }
}

// Signals 0 and 1 are stamped, from the largest of a launch down and in any order; 2 is added to.  Many lanes pay at
// once.
TEST_P(GpuNic, SignalsHoldTheLargestStampThatHasArrivedInLaunchAfterLaunch) {
  constexpr uint32_t kLows[] = {5, 3, 90, 7, 1, 64, 8, 2};
  constexpr uint64_t kPutBytes = 4096;
  const Nics nics({2, 1}, 0);
  NicFabric fabric(nics.queue(0), windows, 0);
  uint64_t num_added = 0;
  for (const uint64_t epoch : {1, 2, 1'000'000}) {
    std::vector<Command> commands;
    for (uint32_t i = 0; i < 64; ++i) {
      commands.push_back(command(i * kPutBytes, i % 3 * kPutBytes / 2, 0));
      commands.back().stamp = stamp_of(epoch, 64 - i);
      commands.push_back(command(i * kPutBytes, kPutBytes, 1));
      commands.back().stamp = stamp_of(epoch, kLows[i % std::size(kLows)]);
      commands.push_back(command(0, 0, 2));
      ++num_added;
    }
    launch(fabric, nics, commands);
    const std::vector<uint64_t> held = read(signals, kSignals);
    EXPECT_EQ(held[kSignals + 0], stamp_of(epoch, 64));
    EXPECT_EQ(held[kSignals + 1], stamp_of(epoch, 90));
    EXPECT_EQ(held[kSignals + 2], num_added);
  }
  Command late = command(0, 16, 0);
  late.stamp = stamp_of(2, 77);
  launch(fabric, nics, {late});
  EXPECT_EQ(read(signals, kSignals)[kSignals + 0], stamp_of(1'000'000, 64));
  const std::vector<uint64_t> words = read(data, kWords);
  for (uint64_t word = 0; word < 64 * kPutBytes / sizeof(uint64_t); ++word) ASSERT_EQ(words[kWords + word], word + 1);
}

TEST_P(GpuNic, PutsTakeTheTimeOfTheirBytesAndALatency) {
  constexpr double kNsPerByte = 0.5;
  const Nics nics({2, 1}, kNsPerByte);
  NicFabric fabric(nics.queue(0), windows, 0);
  const double us = launch(fabric, nics, {command(0, 1 << 20, 0), command(1 << 20, 1 << 19, 1)});
  EXPECT_GE(us, ((1 << 20) + (1 << 19)) * kNsPerByte * 1e-3 + kNetworkLatencyNs * 1e-3);
}

}  // namespace
}  // namespace mk::bench
