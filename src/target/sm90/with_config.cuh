// SPDX-License-Identifier: MIT
// target/sm90/with_config.cuh — from a tile and an element type to a kernel's template arguments.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "mkernel/types.h"
#include "target/sm90/gemm_config.h"

namespace mk::sm90 {

// Calls body.operator()<Config>() for each configuration in the list.
template <class Configs, class Body>
void for_each_config(Body&& body) {
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (body.template operator()<std::tuple_element_t<kIndex, Configs>>(), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Configs>>());
}

// Calls body.operator()<Config>() for the configuration in the list whose tile this is.
template <class Configs, class Body>
void with_tile(const GemmTile& tile, Body&& body) {
  for_each_config<Configs>([&]<class Config>() {
    if (tile_of<Config>() == tile) body.template operator()<Config>();
  });
}

template <DType kDType>
using ElementOf = std::conditional_t<kDType == DType::kBf16, __nv_bfloat16, __half>;

}  // namespace mk::sm90
