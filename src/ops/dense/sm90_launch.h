// SPDX-License-Identifier: MIT
// ops/dense/sm90_launch.h — what launches of the dense kernels share on the host.
//
// A launcher is a class template over what its kernels are compiled for: an element type and an order of B.  It is
// declared for host code and defined in a .cuh; each pair of types is instantiated in a source of its own, which
// cmake/cuda.cmake writes.  Its kernels are loaded before the first launch (runtime/kernel_registry.h).
#pragma once

#include <cuda_runtime.h>

#include "mkernel/gemm_args.h"
#include "ops/dense/tile_image.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"
#include "target/sm90/gemm_config.h"

namespace mk::dense {

inline cudaStream_t stream_of(runtime::Device& device, int rank, Stream asked) {
  return static_cast<cudaStream_t>(runtime::is_default(asked) ? device.stream(rank) : asked);
}

inline sm90::GemmTile gemm_tile_of(const TileImage& image) { return {image.tile_m, image.tile_n, 1}; }

// Calls body.operator()<dtype, order>().
template <class Body>
void with_types(DType dtype, BOrder order, Body&& body) {
  const auto with_order = [&]<DType kDType>() {
    if (order == BOrder::kKN) {
      body.template operator()<kDType, BOrder::kKN>();
    } else {
      body.template operator()<kDType, BOrder::kNK>();
    }
  };
  if (dtype == DType::kBf16) {
    with_order.template operator()<DType::kBf16>();
  } else {
    with_order.template operator()<DType::kFp16>();
  }
}

// Defined in sum_kernel.cuh.
template <class Layout, DType kDType, BOrder kOrder>
struct SumLauncher {
  static void load();  // before the first launch on a device
  static void launch(const runtime::Plan& plan, int rank, const GemmArgs& args, cudaStream_t stream);
};

template <class Layout>
void launch_sum_on_gpu(runtime::WorldState& world, const runtime::Plan& plan, int rank, const GemmArgs& args) {
  const cudaStream_t stream = stream_of(world.device(), rank, args.stream);
  with_types(args.a.dtype, args.b_order, [&]<DType kDType, BOrder kOrder>() {
    SumLauncher<Layout, kDType, kOrder>::launch(plan, rank, args, stream);
  });
}

}  // namespace mk::dense
