// SPDX-License-Identifier: MIT
// bench/engine_probe_cuda.cu — see engine_probe.h.
#include <algorithm>
#include <chrono>

#include "base/atomics.h"
#include "base/cuda_api.h"
#include "bench/engine_probe.h"
#include "target/sm90/ptx.cuh"

namespace mk::bench {
namespace {

constexpr uint64_t kHoldNs = 100'000'000;
constexpr uint64_t kSizes[] = {64 << 10, 8 << 20};
constexpr uint64_t kLargest = 8 << 20;
constexpr int kThreads = 1024;
constexpr int kBlocksPerSm = 2;  // 2048 threads: all an SM has

// A block's words, in host memory: stored, never added to, which any host bus can do.
struct Block {
  uint64_t started;
  uint64_t saw;  // that the copy has landed, before the block gave up
};

__global__ void __launch_bounds__(kThreads, kBlocksPerSm) hold_sms(Block* blocks, const uint64_t* landed) {
  using sm90::SystemAtomics;
  if (threadIdx.x == 0) {
    SystemAtomics::store_release(&blocks[blockIdx.x].started, 1);
    const uint64_t began = sm90::clock_ns();
    uint64_t seen = 0;
    while (seen == 0 && sm90::clock_ns() - began < kHoldNs) seen = SystemAtomics::load_relaxed(landed);
    SystemAtomics::store_release(&blocks[blockIdx.x].saw, seen);
  }
  __syncthreads();  // the other threads stay as long
}

class Probe {
 public:
  Probe() {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "name the current device");
    int num_sms = 0;
    check_cuda(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device), "count the SMs");
    num_blocks_ = num_sms * kBlocksPerSm;
    try {
      check_cuda(cudaMalloc(&memory_, 2 * kLargest), "allocate memory for a probe");
      check_cuda(cudaMalloc(&landed_, sizeof(uint64_t)), "allocate a word for a probe");
      check_cuda(cudaHostAlloc(&blocks_, num_blocks_ * sizeof(Block), cudaHostAllocPortable | cudaHostAllocMapped),
                 "allocate words for a probe");
      for (cudaStream_t& stream : streams_) {
        check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
      }
    } catch (...) {
      release();
      throw;
    }
  }
  Probe(const Probe&) = delete;
  ~Probe() {
    cudaDeviceSynchronize();
    release();
  }

  bool lands(CopyPath path, uint64_t bytes) {
    const auto [holding, copying] = streams_;
    std::byte* const memory = static_cast<std::byte*>(memory_);
    const CopyPiece piece{memory + kLargest, memory, bytes};
    copy_on_device(path, {&piece, 1}, copying);  // what is loaded once is loaded now
    check_cuda(cudaMemsetAsync(landed_, 0, sizeof(uint64_t), copying), "clear a word");
    check_cuda(cudaStreamSynchronize(copying), "copy for a probe");
    std::fill_n(blocks_, num_blocks_, Block{});
    hold_sms<<<num_blocks_, kThreads, 0, holding>>>(blocks_, landed_);
    check_cuda(cudaGetLastError(), "hold the SMs");
    wait_for_all_blocks();
    copy_on_device(path, {&piece, 1}, copying);
    check_cuda(
        cuda_driver().write_value(copying, reinterpret_cast<CUdeviceptr>(landed_), 1, CU_STREAM_WRITE_VALUE_DEFAULT),
        "tell of a copy");
    check_cuda(cudaStreamSynchronize(holding), "let the SMs go");
    check_cuda(cudaStreamSynchronize(copying), "copy for a probe");
    return std::all_of(blocks_, blocks_ + num_blocks_,
                       [](const Block& block) { return HostAtomics::load_acquire(&block.saw) == 1; });
  }

 private:
  // Bounded: a kernel that is not all there by then makes the probe say no.
  void wait_for_all_blocks() const {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kHoldNs / 2);
    const auto runs = [](const Block& block) { return HostAtomics::load_acquire(&block.started) == 1; };
    while (!std::all_of(blocks_, blocks_ + num_blocks_, runs) && std::chrono::steady_clock::now() < give_up) {
    }
  }

  void release() noexcept {
    for (const cudaStream_t stream : streams_) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
    cudaFreeHost(blocks_);
    cudaFree(landed_);
    cudaFree(memory_);
  }

  int num_blocks_ = 0;
  void* memory_ = nullptr;
  uint64_t* landed_ = nullptr;
  Block* blocks_ = nullptr;
  cudaStream_t streams_[2] = {};
};

}  // namespace

bool copies_need_no_sm(CopyPath path) {
  Probe probe;
  for (const uint64_t bytes : kSizes) {
    if (!probe.lands(path, bytes)) return false;
  }
  return true;
}

}  // namespace mk::bench
