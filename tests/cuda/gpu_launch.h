// SPDX-License-Identifier: MIT
// tests/cuda/gpu_launch.h — the tensors of a launch, of whatever operator, on the GPU.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "mkernel/mkernel.h"
#include "runtime/device.h"
#include "runtime/world_state.h"
#include "tests/support/ag_gemm_launch.h"
#include "tests/support/sum_launch.h"

namespace mk::test {

// First line of every test that needs a GPU.
#define MK_NEEDS_GPU()                                                            \
  if (const std::string missing = mk::runtime::why_no_cuda(); !missing.empty()) { \
    GTEST_SKIP() << missing;                                                      \
  }

inline World gpu_world(const WorldShape& shape, const Options& options = {.timeout_ms = 5000}) {
  return World::local(shape.nodes, shape.ranks, DeviceKind::kCuda, options);
}

// Launch: AgGemmLaunch or SumLaunch.
template <class Launch>
class GpuLaunch {
 public:
  using Args = typename decltype(std::declval<Launch&>().args())::value_type;

  // Uploads the inputs of `host` and its poisoned outputs.
  GpuLaunch(World& world, Launch& host) : device_(world.state().device()), args_(host.args()) {
    for (int i = 0; i < world.num_ranks(); ++i) {  // ranks may run ahead of each other, as on GPUs of their own
      const int rank = world.first_rank() + i;
      args_[rank].stream = world.rank_stream(rank);
    }
    for (Args& own : args_) {
      for (Tensor* tensor : tensors_of(own)) {
        const runtime::Buffer& buffer = buffers_.emplace_back(device_, bytes_of(*tensor));
        tensor->data = buffer.as<void>();
      }
    }
    refill(host);
  }

  const std::vector<Args>& args() const { return args_; }

  // The tensors of another launch of the same shape into the same memory.
  void refill(Launch& host) {
    std::vector<Args> from = host.args();
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      const std::vector<Tensor*> theirs = tensors_of(from[rank]);
      const std::vector<Tensor*> ours = tensors_of(args_[rank]);
      for (size_t i = 0; i < ours.size(); ++i) device_.upload(ours[i]->data, theirs[i]->data, bytes_of(*ours[i]));
    }
  }

  // Brings the outputs into `host`, to be checked there.
  void fetch_into(Launch& host) const {
    const std::vector<Args> to = host.args();
    for (size_t rank = 0; rank < args_.size(); ++rank) {
      device_.download(to[rank].c.data, args_[rank].c.data, bytes_of(to[rank].c));
    }
  }

  static size_t bytes_of(const Tensor& tensor) { return tensor.rows * tensor.cols * size_of(tensor.dtype); }

 private:
  static std::vector<Tensor*> tensors_of(AgGemmArgs& args) {
    std::vector<Tensor*> tensors{&args.a, &args.b, &args.c};
    if (args.bias.data != nullptr) tensors.push_back(&args.bias);
    return tensors;
  }
  static std::vector<Tensor*> tensors_of(GemmArgs& args) { return {&args.a, &args.b, &args.c}; }

  runtime::Device& device_;
  std::vector<Args> args_;
  std::vector<runtime::Buffer> buffers_;
};

// Queues make(0) … make(count-1), on the GPU, back to back by call(args), waits once, and checks every one.
template <class Launch, class Make, class Call>
testing::AssertionResult all_run_right_on_gpu(World& world, int count, Make&& make, Call&& call) {
  std::vector<Launch> host;
  std::vector<GpuLaunch<Launch>> gpu;
  host.reserve(count);
  for (int i = 0; i < count; ++i) {
    host.push_back(make(i));
    gpu.emplace_back(world, host.back());
  }
  for (const GpuLaunch<Launch>& launch : gpu) call(launch.args());
  world.synchronize();
  for (int i = 0; i < count; ++i) {
    gpu[i].fetch_into(host[i]);
    if (auto right = host[i].is_right(); !right) {
      return right << " (" << name_of(shape_of(world)) << ", launch " << i + 1 << ")";
    }
  }
  return testing::AssertionSuccess();
}

inline testing::AssertionResult gpu_runs_right(World& world, const Shape& shape, const RunOptions& options,
                                               const TileSize& tile = {}) {
  const auto make = [&](int i) {
    return AgGemmLaunch(shape_of(world), shape, options.dtype, seed_of(options.seed, i), options.data, options.form);
  };
  const auto call = [&](const std::vector<AgGemmArgs>& args) { ag_gemm(world, args, {options.split, tile}); };
  return all_run_right_on_gpu<AgGemmLaunch>(world, options.launches, make, call) << ", " << name_of(shape);
}

inline testing::AssertionResult gpu_runs_right(World& world, const Shape& shape, DType dtype, int count,
                                               uint64_t seed = 1, const Split& split = {}) {
  return gpu_runs_right(world, shape, {.dtype = dtype, .launches = count, .seed = seed, .split = split});
}

// B lies now in one order, now in the other.
inline testing::AssertionResult gpu_runs_right(World& world, SumOp op, const Shape& shape, const SumOptions& options) {
  const auto make = [&](int i) {
    const SumCase at{op, shape, options.dtype, i % 2 == 0 ? BOrder::kKN : BOrder::kNK};
    return SumLaunch(shape_of(world), at, seed_of(options.seed, i), options.data);
  };
  const auto run = [&](const std::vector<GemmArgs>& args) { call(op, world, args, options.split); };
  return all_run_right_on_gpu<SumLaunch>(world, options.launches, make, run) << ", " << name_of(shape);
}

}  // namespace mk::test
