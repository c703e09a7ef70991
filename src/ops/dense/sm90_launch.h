// SPDX-License-Identifier: MIT
// ops/dense/sm90_launch.h — what launches of the dense kernels share on the host.
#pragma once

#include <cuda_runtime.h>

#include "ops/dense/tile_image.h"
#include "runtime/device.h"
#include "target/sm90/gemm_config.h"

namespace mk::dense {

inline cudaStream_t stream_of(runtime::Device& device, int rank, Stream asked) {
  return static_cast<cudaStream_t>(asked != nullptr ? asked : device.stream(rank));
}

inline sm90::GemmTile gemm_tile_of(const TileImage& image) { return {image.tile_m, image.tile_n, 1}; }

}  // namespace mk::dense
