// SPDX-License-Identifier: MIT
// tests/cuda/gpu_launch.h — the tensors of a launch, of whatever operator, on the GPU.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "mkernel/mkernel.h"
#include "runtime/device.h"
#include "runtime/world_state.h"
#include "tests/support/op_launch.h"

namespace mk::test {

// First line of every test that needs a GPU.
#define MK_NEEDS_GPU()                                                            \
  if (const std::string missing = mk::runtime::why_no_cuda(); !missing.empty()) { \
    GTEST_SKIP() << missing;                                                      \
  }

inline World gpu_world(const WorldShape& shape, const Options& options = {.timeout_ms = 5000}) {
  return World::local(shape.nodes, shape.ranks, DeviceKind::kCuda, options);
}

class GpuLaunch {
 public:
  // Uploads the inputs of `host` and its poisoned outputs.
  GpuLaunch(World& world, OpLaunch& host) : op_(host.op()), device_(world.state().device()), args_(host.args()) {
    for (int i = 0; i < world.num_ranks(); ++i) {  // ranks may run ahead of each other, as on GPUs of their own
      const int rank = world.first_rank() + i;
      args_[rank].stream = world.rank_stream(rank);
    }
    for (OpArgs& own : args_) {
      for (std::vector<Tensor>* tensors : {&own.in, &own.out}) {
        for (Tensor& tensor : *tensors) tensor.data = buffers_.emplace_back(device_, bytes_of(tensor)).as<void>();
      }
    }
    refill(host);
  }

  const std::vector<OpArgs>& args() const { return args_; }

  // Queues it, for the ranks that are here.
  void enqueue(World& world, const OpSettings& settings = {}) const {
    call(op_, world, std::span(args_).subspan(world.first_rank(), world.num_ranks()), settings);
  }

  // The tensors of another launch of the same shape into the same memory.
  void refill(OpLaunch& host) {
    const std::vector<OpArgs> from = host.args();
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      upload(args_[rank].in, from[rank].in);
      upload(args_[rank].out, from[rank].out);
    }
  }

  // Brings the outputs into `host`, to be checked there.
  void fetch_into(OpLaunch& host) const {
    const std::vector<OpArgs> to = host.args();
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      for (size_t i = 0; i < to[rank].out.size(); ++i) {
        const Tensor& out = to[rank].out[i];
        device_.download(out.data, args_[rank].out[i].data, bytes_of(out));
      }
    }
  }

  static size_t bytes_of(const Tensor& tensor) { return tensor.rows * tensor.cols * size_of(tensor.dtype); }

 private:
  void upload(const std::vector<Tensor>& to, const std::vector<Tensor>& from) {
    for (size_t i = 0; i < to.size(); ++i) device_.upload(to[i].data, from[i].data, bytes_of(to[i]));
  }

  Op op_;
  runtime::Device& device_;
  std::vector<OpArgs> args_;
  std::vector<runtime::Buffer> buffers_;
};

// Queues launch_number 0 … on the GPU, back to back, waits once, and checks every one.
inline testing::AssertionResult gpu_runs_right(World& world, Op op, const Shape& shape, const RunOptions& options) {
  std::vector<OpLaunch> host;
  std::vector<GpuLaunch> gpu;
  host.reserve(options.launches);
  for (int i = 0; i < options.launches; ++i) {
    host.push_back(launch_number(i, op, shape_of(world), shape, options));
    gpu.emplace_back(world, host.back());
  }
  for (const GpuLaunch& launch : gpu) launch.enqueue(world, {options.split, options.tile});
  world.synchronize();
  for (int i = 0; i < options.launches; ++i) {
    gpu[i].fetch_into(host[i]);
    if (auto right = host[i].is_right(); !right) {
      return right << " (" << name_of(shape_of(world)) << ", launch " << i + 1 << "), " << name_of(shape);
    }
  }
  return testing::AssertionSuccess();
}

// AllGather+GEMM, where any operator would do.
inline testing::AssertionResult gpu_runs_right(World& world, const Shape& shape, DType dtype, int count,
                                               uint64_t seed = 1, const Split& split = {}) {
  return gpu_runs_right(world, Op::kAgGemm, shape, {.dtype = dtype, .launches = count, .seed = seed, .split = split});
}

}  // namespace mk::test
