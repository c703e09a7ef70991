// SPDX-License-Identifier: MIT
// target/sm90/with_config.cuh — from a tile, an element type and an order of B to a kernel's template arguments.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "mkernel/types.h"
#include "target/sm90/gemm_config.h"

namespace mk::sm90 {

// Calls body.operator()<Config, Element, order>() for the configuration whose tile this is.
template <class Body>
void with_config(const GemmTile& tile, DType dtype, BOrder order, Body&& body) {
  const auto with_element = [&]<class Config, class Element>() {
    if (order == BOrder::kKN) {
      body.template operator()<Config, Element, BOrder::kKN>();
    } else {
      body.template operator()<Config, Element, BOrder::kNK>();
    }
  };
  const auto try_config = [&]<size_t kIndex>() {
    using Config = std::tuple_element_t<kIndex, GemmConfigs>;
    if (!(kGemmTiles[kIndex] == tile)) return;
    if (dtype == DType::kBf16) {
      with_element.template operator()<Config, __nv_bfloat16>();
    } else {
      with_element.template operator()<Config, __half>();
    }
  };
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) { (try_config.template operator()<kIndex>(), ...); }
  (std::make_index_sequence<kNumGemmConfigs>());
}

}  // namespace mk::sm90
