// SPDX-License-Identifier: MIT
// tests/cuda/gpu_launch.h — the tensors of an AgGemmLaunch, on the GPU.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "mkernel/mkernel.h"
#include "runtime/device.h"
#include "runtime/world_state.h"
#include "tests/support/ag_gemm_launch.h"

namespace mk::test {

// First line of every test that needs a GPU.
#define MK_NEEDS_GPU()                                                            \
  if (const std::string missing = mk::runtime::why_no_cuda(); !missing.empty()) { \
    GTEST_SKIP() << missing;                                                      \
  }

class GpuLaunch {
 public:
  // Uploads the inputs of `host` and its poisoned outputs.
  GpuLaunch(World& world, AgGemmLaunch& host) : device_(world.state().device()) {
    for (const AgGemmArgs& of_rank : host.args()) {
      args_.push_back({upload(of_rank.a), upload(of_rank.b), upload(of_rank.c)});
    }
  }

  const std::vector<AgGemmArgs>& args() const { return args_; }

  // The tensors of another launch of the same shape into the same memory.
  void refill(AgGemmLaunch& host) {
    const std::vector<AgGemmArgs> from = host.args();
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      device_.upload(args_[rank].a.data, from[rank].a.data, bytes_of(from[rank].a));
      device_.upload(args_[rank].b.data, from[rank].b.data, bytes_of(from[rank].b));
      device_.upload(args_[rank].c.data, from[rank].c.data, bytes_of(from[rank].c));
    }
  }

  // Brings the outputs into `host`, to be checked there.
  void fetch_into(AgGemmLaunch& host) const {
    const std::vector<AgGemmArgs> to = host.args();
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      device_.download(to[rank].c.data, args_[rank].c.data, bytes_of(to[rank].c));
    }
  }

  static size_t bytes_of(const Tensor& tensor) { return tensor.rows * tensor.cols * size_of(tensor.dtype); }

 private:
  Tensor upload(const Tensor& host) {
    runtime::Buffer& buffer = buffers_.emplace_back(device_, bytes_of(host));
    device_.upload(buffer.as<void>(), host.data, bytes_of(host));
    return {buffer.as<void>(), host.dtype, host.rows, host.cols};
  }

  runtime::Device& device_;
  std::vector<AgGemmArgs> args_;
  std::vector<runtime::Buffer> buffers_;
};

// Queues `count` launches with inputs of their own back to back, waits once, and checks every one.
inline testing::AssertionResult gpu_runs_right(World& world, const Shape& shape, DType dtype, int count,
                                               uint64_t seed = 1, const Split& split = {}) {
  std::vector<AgGemmLaunch> host;
  std::vector<GpuLaunch> gpu;
  host.reserve(count);
  for (int i = 0; i < count; ++i) {
    host.emplace_back(shape_of(world), shape, dtype, seed_of(seed, i));
    gpu.emplace_back(world, host.back());
  }
  for (const GpuLaunch& launch : gpu) ag_gemm(world, launch.args(), {split});
  world.synchronize();
  for (int i = 0; i < count; ++i) {
    gpu[i].fetch_into(host[i]);
    if (auto right = host[i].is_right(); !right) return right << " (launch " << i + 1 << ")";
  }
  return testing::AssertionSuccess();
}

}  // namespace mk::test
