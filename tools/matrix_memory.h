// SPDX-License-Identifier: MIT
// tools/matrix_memory.h — memory of a device with values in it: tensors, and vectors of the host.
#pragma once

#include <algorithm>
#include <vector>

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

template <class T>
runtime::Buffer uploaded(runtime::Device& device, const std::vector<T>& values) {
  runtime::Buffer buffer(device, std::max<size_t>(values.size(), 1) * sizeof(T));
  if (!values.empty()) device.upload(buffer.as(), values.data(), values.size() * sizeof(T));
  return buffer;
}

}  // namespace mk::tools
