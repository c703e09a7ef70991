// SPDX-License-Identifier: MIT
// target/sm90/with_config.cuh — from a tile and an element type to a kernel's template arguments.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

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

template <DType kDType>
using ElementOf = std::conditional_t<kDType == DType::kBf16, __nv_bfloat16, __half>;

}  // namespace mk::sm90
