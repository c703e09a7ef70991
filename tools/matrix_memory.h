// SPDX-License-Identifier: MIT
// tools/matrix_memory.h — a tensor that owns its memory.
#pragma once

#include "mkernel/types.h"
#include "runtime/device.h"

namespace mk::tools {

struct Matrix {
  Matrix(runtime::Device& device, DType dtype, int64_t rows, int64_t cols)
      : memory(device, rows * cols * size_of(dtype)), view{memory.as(), dtype, rows, cols} {}

  // `count` rows from `first` on.
  Tensor rows(int64_t first, int64_t count) const {
    return {memory.as() + first * view.cols * size_of(view.dtype), view.dtype, count, view.cols};
  }

  runtime::Buffer memory;
  Tensor view;
};

}  // namespace mk::tools
