// SPDX-License-Identifier: MIT
// tests/cuda/gpu_stamp_test.cu — stamps that copy engines pay are seen by a running kernel with the bytes of their
// puts.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <vector>

#include "base/cuda_api.h"
#include "core/stamp.h"
#include "target/sm90/ptx.cuh"
#include "tests/cuda/gpu_launch.h"
#include "transport/loopback_cuda.h"
#include "transport/mover_cuda.h"

namespace mk::test {
namespace {

constexpr uint64_t kTimeoutNs = 5'000'000'000;
constexpr uint32_t kPuts = 200;
constexpr uint64_t kPutWords = 512;  // whole cache lines
constexpr uint64_t kPutBytes = kPutWords * sizeof(uint64_t);
constexpr uint64_t kSignals = 2;  // 0 is stamped, 1 is added to

struct Watched {
  uint64_t last, num_seen, num_wrong, num_shrunk;
};

// A warp that looks at a signal until it holds `wanted`.  A stamp's low number says which put it is of; word w of all
// puts is w + 1.
__global__ void watch(const uint64_t* signal, const uint64_t* words, uint64_t wanted, Watched* result) {
  const uint64_t began = sm90::clock_ns();
  Watched watched{};
  bool in_time = true;
  while (watched.last != wanted && in_time) {
    uint64_t stamp = 0;
    if (threadIdx.x == 0) {
      stamp = sm90::SystemAtomics::load_acquire(signal);
      in_time = sm90::clock_ns() - began < kTimeoutNs;
    }
    __syncwarp();  // what the first lane has acquired, the others have
    stamp = __shfl_sync(0xffffffffu, stamp, 0);
    in_time = __shfl_sync(0xffffffffu, in_time ? 1 : 0, 0) != 0;
    if (stamp == watched.last) continue;
    const uint64_t first = low_in(stamp) * kPutWords;
    bool is_right = true;
    for (uint64_t w = first + threadIdx.x; w < first + kPutWords; w += 32) is_right &= words[w] == w + 1;
    watched.num_wrong += __all_sync(0xffffffffu, is_right) ? 0 : 1;
    watched.num_shrunk += stamp < watched.last ? 1 : 0;
    ++watched.num_seen;
    watched.last = stamp;
  }
  if (threadIdx.x == 0) *result = watched;
}

// Rank 0 puts to rank 1; both have the same windows in one allocation.
class GpuStamp : public testing::Test {
 protected:
  static constexpr uint64_t kWords = kPuts * kPutWords;
  static constexpr uint64_t kLast = stamp_of(kPuts, kPuts - 1);

  void SetUp() override {
    MK_NEEDS_GPU();
    words.resize(kWords);
    std::iota(words.begin(), words.end(), 1);
    check_cuda(cudaMalloc(&data, 2 * kWords * sizeof(uint64_t)), "allocate data");
    check_cuda(cudaMalloc(&signals, 2 * kSignals * sizeof(uint64_t)), "allocate signals");
    check_cuda(cudaMalloc(&result, sizeof(Watched)), "allocate a result");
    check_cuda(cudaMemcpy(data, words.data(), kWords * sizeof(uint64_t), cudaMemcpyHostToDevice), "copy to the device");
    check_cuda(cudaMemset(data + kWords, 0, kWords * sizeof(uint64_t)), "clear data");
    check_cuda(cudaMemset(signals, 0, 2 * kSignals * sizeof(uint64_t)), "clear signals");
    for (cudaStream_t* stream : {&out, &in, &watching}) {
      check_cuda(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "create a stream");
    }
    load_kernel(reinterpret_cast<const void*>(watch), 0);
  }
  void TearDown() override {
    for (const cudaStream_t stream : {out, in, watching}) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
    cudaFree(data);
    cudaFree(signals);
    cudaFree(result);
  }

  uint64_t* there(uint64_t put) const { return data + kWords + put * kPutWords; }
  uint64_t* signal(uint32_t index) const { return signals + kSignals + index; }
  uint64_t held_by(uint32_t index) const {
    uint64_t value = 0;
    check_cuda(cudaMemcpy(&value, signal(index), sizeof(value), cudaMemcpyDeviceToHost), "copy from the device");
    return value;
  }

  // `pay(i, bytes, signal, payment)` sends put i; `finish()` waits for all that was sent.
  using Pay = std::function<void(uint32_t put, uint64_t bytes, uint32_t signal, const Payment& payment)>;
  void expect_stamps_with_their_bytes(const Pay& pay, const std::function<void()>& finish) {
    pay(0, kPutBytes, 0, {3, stamp_of(1, 0)});  // alone: a stream's first work of a kind may want an idle GPU
    finish();
    ASSERT_EQ(held_by(0), stamp_of(1, 0));
    watch<<<1, 32, 0, watching>>>(signal(0), there(0), kLast, result);
    check_cuda(cudaGetLastError(), "launch");
    for (uint32_t i = 1; i < kPuts; ++i) {
      pay(i, kPutBytes, 0, {3, stamp_of(i + 1, i)});
      pay(0, i % 2 * kPutBytes, 0, {3, stamp_of(1, 0)});  // late: put 0 is there all the time
      pay(0, 0, 1, {i, 0});
      if (i % 16 == 0) finish();
    }
    finish();
    check_cuda(cudaStreamSynchronize(watching), "finish watching");
    Watched watched{};
    check_cuda(cudaMemcpy(&watched, result, sizeof(watched), cudaMemcpyDeviceToHost), "copy from the device");
    EXPECT_EQ(watched.last, kLast);
    EXPECT_EQ(watched.num_wrong, 0u) << "of " << watched.num_seen;
    EXPECT_EQ(watched.num_shrunk, 0u);
    EXPECT_EQ(held_by(0), kLast);
    EXPECT_EQ(held_by(1), uint64_t{kPuts} * (kPuts - 1) / 2);
    pay(1, kPutBytes, 0, {3, stamp_of(1'000'000, 1)});
    finish();
    EXPECT_EQ(held_by(0), stamp_of(1'000'000, 1));
  }

  std::vector<uint64_t> words;
  uint64_t* data = nullptr;
  uint64_t* signals = nullptr;
  Watched* result = nullptr;
  cudaStream_t out = nullptr, in = nullptr, watching = nullptr;
};

constexpr auto kPatience = std::chrono::seconds(10);

TEST_F(GpuStamp, OfTheLoopbackComesWithItsBytes) {
  WindowRegistry windows;
  for (const auto& [first, bytes] :
       {std::pair(data, kWords * sizeof(uint64_t)), {signals, kSignals * sizeof(uint64_t)}}) {
    auto* const base = reinterpret_cast<std::byte*>(first);
    windows.add({base, base + bytes}, bytes);
  }
  CudaLoopbackFabric fabric(windows, 0, {out, in});
  size_t num_put = 0;
  std::vector<uint64_t> completed;
  const auto until = [&](const std::function<bool()>& holds) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
      ASSERT_EQ(fabric.poll(completed), PutResult::kSent) << fabric.failure();
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    }
  };
  const Pay pay = [&](uint32_t put, uint64_t bytes, uint32_t index, const Payment& payment) {
    Command command{put * kPutBytes, put * kPutBytes, bytes, 0, 0, 1, index, 0, 1, payment.stamp, 0};
    command.amount = static_cast<uint32_t>(payment.amount);
    until([&] { return fabric.put(command, num_put) != PutResult::kFull; });
    ++num_put;
  };
  expect_stamps_with_their_bytes(pay, [&] { until([&] { return completed.size() == num_put; }); });
}

TEST_F(GpuStamp, OfAMoverComesWithItsBytes) {
  CudaMover mover({out, in});
  auto* const host = reinterpret_cast<std::byte*>(words.data());
  mover.pin(host, kWords * sizeof(uint64_t));
  size_t num_landings = 0;
  std::vector<uint64_t> done;
  const Pay pay = [&](uint32_t put, uint64_t bytes, uint32_t index, const Payment& payment) {
    mover.land(reinterpret_cast<std::byte*>(there(put)), host + put * kPutBytes, bytes, signal(index), payment,
               num_landings++);
  };
  expect_stamps_with_their_bytes(pay, [&] {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (done.size() < num_landings && std::chrono::steady_clock::now() < give_up) mover.poll(done);
    EXPECT_EQ(done.size(), num_landings);
  });
  mover.unpin(host);
}

}  // namespace
}  // namespace mk::test
