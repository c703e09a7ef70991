// SPDX-License-Identifier: MIT
// tools/matrix_memory.h — a tensor that owns its memory.
#pragma once

#include "mkernel/types.h"
#include "runtime/device.h"

namespace mk::tools {

// `count` rows from `first` on.
inline Tensor rows_of(const Tensor& tensor, int64_t first, int64_t count) {
  return {static_cast<std::byte*>(tensor.data) + first * tensor.cols * size_of(tensor.dtype), tensor.dtype, count,
          tensor.cols};
}

struct Matrix {
  Matrix(runtime::Device& device, DType dtype, int64_t rows, int64_t cols)
      : memory(device, rows * cols * size_of(dtype)), view{memory.as(), dtype, rows, cols} {}

  Tensor rows(int64_t first, int64_t count) const { return rows_of(view, first, count); }

  runtime::Buffer memory;
  Tensor view;
};

}  // namespace mk::tools
