// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_kernel.cuh — GEMM+AllReduce, both paths, for ops/dense/sum_kernel.cuh.
#pragma once

#include "ops/gemm_ar/gemm_ar_one_shot_protocol.h"
#include "ops/gemm_ar/gemm_ar_protocol.h"
#include "ops/gemm_rs/gemm_rs_kernel.cuh"

namespace mk::gemm_ar_op {

struct TwoShotOp : gemm_rs_op::ScatterOp<TwoShotLayout> {
  template <class M, class Body>
  __device__ static void communicate(M& m, const TwoShotLayout& layout, const Post& post, Body& body) {
    if (post.role == TwoShotLayout::kReduce) {
      reduce(m, layout, post, body);
    } else {
      gather(m, layout, post, body);
    }
  }
};

struct OneShotOp {
  using Layout = OneShotLayout;

  template <class Body>
  __device__ static void for_each_tile(const Layout& layout, int, const Post& post, Body&& body) {
    gemm_ar_op::for_each_tile(layout, post, body);
  }
  __device__ static int num_receivers(const Layout& layout) { return layout.world.ranks; }
  __device__ static Place place(const Layout& layout, int rank, const Tile& tile) {
    return layout.partial_place(receiver_at(layout.world, rank, 0), rank, tile);
  }
  __device__ static int receiver(const Layout& layout, int rank, const Tile&, int step) {
    return receiver_at(layout.world, rank, step);
  }
  template <class M>
  __device__ static bool wait(M& m, const Layout& layout, const Tile& tile, int step) {
    return wait_to_deliver(m, layout, tile, receiver_at(layout.world, m.rank(), step));
  }
  template <class M>
  __device__ static void tell(M& m, const Layout& layout, const Tile& tile, int step) {
    deliver(m, layout, tile, receiver_at(layout.world, m.rank(), step));
  }
  template <class M, class Body>
  __device__ static void communicate(M& m, const Layout& layout, const Post& post, Body& body) {
    reduce(m, layout, post, body);
  }
};

}  // namespace mk::gemm_ar_op
