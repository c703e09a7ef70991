// SPDX-License-Identifier: MIT
// tests/cuda/gpu_settle_test.cu — of each role that puts, one worker stays on the GPU until the puts have completed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "base/atomics.h"
#include "base/cuda_api.h"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/warp_crew.cuh"
#include "tests/cuda/gpu_launch.h"

namespace mk::test {
namespace {

constexpr int kWorkers = 5;
__host__ __device__ constexpr int count_of(int role) { return role == 0 ? 2 : 3; }

// Roles of the workers, in the order in which they come to settle.
using Order = std::array<int, kWorkers>;

// On the GPU, as atomics on a host's memory need not work.
struct Counters {
  uint64_t claimed, exits;
  uint64_t settlers[2 * kTargetWords];
};

// The host plays the proxy.
struct HostWords {
  uint64_t completed, stop;
  uint64_t came[kWorkers], left[kWorkers];  // the last epoch in which it did
  FaultRecord faults[kWorkers * kRecordsPerWorker];
};

// A worker hands one put over and settles.  With `one_counter` all roles count in one word, as it was once.
__global__ void settle_in_order(Counters* counters, HostWords* host, const __grid_constant__ Order order,
                                bool one_counter) {
  using sm90::SystemAtomics;
  const int worker = static_cast<int>(blockIdx.x);
  int index = 0;
  for (int i = 0; i < worker; ++i) index += order[i] == order[worker] ? 1 : 0;
  const Post post{order[worker], index, count_of(order[worker])};
  RankView view;
  view.workers = kWorkers;
  view.ring.claimed = &counters->claimed;
  view.ring.completed = &host->completed;
  view.exits = &counters->exits;
  view.target_words = counters->settlers + (one_counter ? kTargetWords - post.role : 0);
  view.stop = &host->stop;
  view.faults = host->faults;
  view.timeout_ns = 5'000'000'000;
  sm90::Sm90Machine<sm90::WarpCrew> machine(view, post, worker, {}, sm90::NoPace());
  const uint64_t before = (machine.epoch() - 1) * kWorkers + worker;
  const auto settlers = [&] {
    uint64_t sum = 0;
    for (const int word : {0, 1, kTargetWords}) sum += SystemAtomics::load_relaxed(&counters->settlers[word]);
    return sum;
  };
  const uint64_t began = sm90::clock_ns();
  while (settlers() < before && sm90::clock_ns() - began < view.timeout_ns) {
  }
  if (threadIdx.x == 0) {
    RingProducer<SystemAtomics>{view.ring}.claim();
    SystemAtomics::store_release(&host->came[worker], machine.epoch());
  }
  __syncwarp();
  machine.settle();
  if (threadIdx.x == 0) {
    SystemAtomics::store_release(&host->left[worker], machine.epoch());
    SystemAtomics::add_relaxed(view.exits, 1);
  }
}

class GpuSettle : public testing::Test {
 protected:
  void SetUp() override {
    MK_NEEDS_GPU();
    check_cuda(cudaHostAlloc(&host, sizeof(HostWords), cudaHostAllocMapped), "allocate words of the host");
    check_cuda(cudaMalloc(&counters, sizeof(Counters)), "allocate counters");
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
  }
  void TearDown() override {
    if (stream != nullptr) cudaStreamDestroy(stream);
    cudaFree(counters);
    cudaFreeHost(host);
  }

  static bool all_are(const uint64_t (&words)[kWorkers], uint64_t epoch) {
    return std::ranges::all_of(words, [&](const uint64_t& word) { return HostAtomics::load_acquire(&word) == epoch; });
  }
  int num_there(const Order& order, int role, uint64_t epoch) const {
    int there = 0;
    for (int i = 0; i < kWorkers; ++i) {
      there += order[i] == role && HostAtomics::load_acquire(&host->left[i]) < epoch ? 1 : 0;
    }
    return there;
  }

  // Whether, launch after launch, one worker of each role is there as long as puts are under way.
  bool one_of_each_role_waits(const Order& order, bool one_counter) {
    *host = {};
    check_cuda(cudaMemset(counters, 0, sizeof(Counters)), "clear counters");
    bool waits = true;
    for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
      settle_in_order<<<kWorkers, 32, 0, stream>>>(counters, host, order, one_counter);
      check_cuda(cudaGetLastError(), "launch");
      const auto began = std::chrono::steady_clock::now();
      while (!all_are(host->came, epoch) && std::chrono::steady_clock::now() - began < kPatience) {
        std::this_thread::yield();
      }
      EXPECT_TRUE(all_are(host->came, epoch));
      std::this_thread::sleep_for(kQuiet);
      for (int role = 0; role < 2; ++role) waits = waits && num_there(order, role, epoch) == 1;
      HostAtomics::store_release(&host->completed, epoch * kWorkers);
      check_cuda(cudaStreamSynchronize(stream), "finish");
      EXPECT_TRUE(all_are(host->left, epoch));
    }
    return waits;
  }

  static constexpr auto kPatience = std::chrono::seconds(5);
  static constexpr auto kQuiet = std::chrono::milliseconds(20);  // for those who do not wait to leave

  HostWords* host = nullptr;
  Counters* counters = nullptr;
  cudaStream_t stream = nullptr;
};

constexpr Order kOrders[] = {{1, 1, 1, 0, 0}, {0, 0, 1, 1, 1}, {0, 1, 0, 1, 1}, {1, 0, 1, 1, 0}};

TEST_F(GpuSettle, OneWorkerOfEachRoleWaitsForItsPuts) {
  for (const Order& order : kOrders) EXPECT_TRUE(one_of_each_role_waits(order, false));
}

TEST_F(GpuSettle, WithOneCounterForAllRolesSomeRoleDoesNot) {
  for (const Order& order : kOrders) EXPECT_FALSE(one_of_each_role_waits(order, true));
}

}  // namespace
}  // namespace mk::test
