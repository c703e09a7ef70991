// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_kernel.cuh — GEMM+ReduceScatter for ops/dense/sum_kernel.cuh.
#pragma once

#include "ops/gemm_rs/gemm_rs_protocol.h"

namespace mk::gemm_rs_op {

// Also the first half of GEMM+AllReduce, whose layout is this one and more.
template <class SomeLayout>
struct ScatterOp {
  using Layout = SomeLayout;

  template <class Body>
  __device__ static void for_each_tile(const Layout& layout, int rank, const Post& post, Body&& body) {
    gemm_rs_op::for_each_tile(layout, rank, post, body);
  }
  __device__ static int num_receivers(const Layout&) { return 1; }
  __device__ static Place place(const Layout& layout, int rank, const Tile& tile) {
    return layout.partial_place(rank, tile);
  }
  __device__ static int receiver(const Layout& layout, int rank, const Tile& tile, int) {
    return layout.reducer_of(rank, tile.source);
  }
  template <class M>
  __device__ static bool wait(M& m, const Layout& layout, const Tile& tile, int) {
    return wait_to_deliver(m, layout, tile);
  }
  template <class M>
  __device__ static void tell(M& m, const Layout& layout, const Tile& tile, int) {
    deliver(m, layout, tile);
  }
};

struct GemmRsOp : ScatterOp<Layout> {
  template <class M, class Body>
  __device__ static void communicate(M& m, const Layout& layout, const Post& post, Body& body) {
    reduce(m, layout, post, body);
  }
};

}  // namespace mk::gemm_rs_op
