// SPDX-License-Identifier: MIT
// target/sm90/tensor_map.cc — see tensor_map.h.
#include "target/sm90/tensor_map.h"

#include "base/cuda_api.h"

namespace mk::sm90 {

CUtensorMap make_tensor_map(const ShardedMatrix& matrix, int box_cols, int box_rows) {
  const cuuint64_t row_bytes = matrix.cols * size_of(matrix.dtype);
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.shard_rows),
                               static_cast<cuuint64_t>(matrix.shards)};
  const cuuint64_t strides[2] = {row_bytes, row_bytes * matrix.shard_rows};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows), 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUtensorMapDataType type =
      matrix.dtype == DType::kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const CUtensorMapSwizzle swizzle = box_cols == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
  CUtensorMap map;
  check_cuda(cuda_driver().encode_tiled(&map, type, 3, const_cast<void*>(matrix.data), sizes, strides, box, steps,
                                        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
             "describe a tensor for TMA");
  return map;
}

}  // namespace mk::sm90
