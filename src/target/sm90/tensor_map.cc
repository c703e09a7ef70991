// SPDX-License-Identifier: MIT
// target/sm90/tensor_map.cc — see tensor_map.h.
#include "target/sm90/tensor_map.h"

#include <algorithm>
#include <cstddef>

#include "base/cuda_api.h"

namespace mk::sm90 {
namespace {

CUtensorMapDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::kFp16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kFp32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
  return {};
}

CUtensorMapSwizzle swizzle_of(Swizzle asked, int64_t row_bytes) {
  switch (asked) {
    case Swizzle::kNone: return CU_TENSOR_MAP_SWIZZLE_NONE;
    case Swizzle::k32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::k64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::k128: return CU_TENSOR_MAP_SWIZZLE_128B;
    case Swizzle::kByRow: break;
  }
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : row_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                           : CU_TENSOR_MAP_SWIZZLE_NONE;
}

}  // namespace

TensorView TensorView::packed(const void* data, DType dtype, std::initializer_list<int64_t> sizes) {
  TensorView view{data, dtype, static_cast<int>(sizes.size())};
  std::ranges::copy(sizes, view.sizes.begin());
  view.strides[0] = 1;
  for (int i = 1; i < view.rank; ++i) view.strides[i] = view.strides[i - 1] * view.sizes[i - 1];
  return view;
}

CUtensorMap make_tensor_map(const TensorView& view, const TensorBox& box) {
  const int64_t bytes = size_of(view.dtype);
  std::array<cuuint64_t, TensorView::kMostRank> sizes{};
  std::array<cuuint64_t, TensorView::kMostRank> strides{};  // of the dimensions after the first
  std::array<cuuint32_t, TensorView::kMostRank> box_sizes{};
  std::array<cuuint32_t, TensorView::kMostRank> steps{};
  for (int i = 0; i < view.rank; ++i) {
    sizes[i] = static_cast<cuuint64_t>(view.sizes[i]);
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(view.strides[i] * bytes);
    box_sizes[i] = static_cast<cuuint32_t>(box.sizes[i]);
    steps[i] = 1;
  }
  CUtensorMap map;
  check_cuda(cuda_driver().encode_tiled(&map, type_of(view.dtype), static_cast<cuuint32_t>(view.rank),
                                        const_cast<void*>(view.data), sizes.data(), strides.data(), box_sizes.data(),
                                        steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                        swizzle_of(box.swizzle, box.sizes[0] * bytes),
                                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
             "describe a tensor for TMA");
  return map;
}

CUtensorMap make_tensor_map(const ShardedMatrix& matrix, int box_cols, int box_rows) {
  return make_tensor_map(TensorView::packed(matrix.data, matrix.dtype, {matrix.cols, matrix.shard_rows, matrix.shards}),
                         {{box_cols, box_rows, 1}});
}

CUtensorMap make_ragged_map(const void* data, DType dtype, const RaggedRows& matrix, int box_cols) {
  TensorView view{static_cast<const std::byte*>(data) + matrix.begin() * size_of(dtype), dtype, 3};
  std::ranges::copy(matrix.sizes(), view.sizes.begin());
  std::ranges::copy(matrix.strides(), view.strides.begin());
  return make_tensor_map(view, {{box_cols, matrix.box_rows, 1}});
}

}  // namespace mk::sm90
