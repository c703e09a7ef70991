// SPDX-License-Identifier: MIT
// target/sm90/with_config.cuh — from a tile, an element type and an order of B to a kernel's template arguments.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "mkernel/types.h"
#include "target/sm90/gemm_config.h"

namespace mk::sm90 {

// Calls body.operator()<Config>() for the configuration in the list whose tile this is.
template <class Configs, class Body>
void with_tile(const GemmTile& tile, Body&& body) {
  const auto try_config = [&]<class Config>() {
    if (tile_of<Config>() == tile) body.template operator()<Config>();
  };
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (try_config.template operator()<std::tuple_element_t<kIndex, Configs>>(), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Configs>>());
}

// Calls body.operator()<Element, order>().
template <class Body>
void with_types(DType dtype, BOrder order, Body&& body) {
  const auto with_element = [&]<class Element>() {
    if (order == BOrder::kKN) {
      body.template operator()<Element, BOrder::kKN>();
    } else {
      body.template operator()<Element, BOrder::kNK>();
    }
  };
  if (dtype == DType::kBf16) {
    with_element.template operator()<__nv_bfloat16>();
  } else {
    with_element.template operator()<__half>();
  }
}

}  // namespace mk::sm90
