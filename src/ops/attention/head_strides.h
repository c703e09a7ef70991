// SPDX-License-Identifier: MIT
// ops/attention/head_strides.h — where rows of heads lie in a caller's tensor.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "mkernel/ring_attention.h"

namespace mk::attention {

MK_HD constexpr HeadStrides without_gaps(int64_t rows, int64_t heads, int64_t dim) {
  return {rows * heads * dim, heads * dim, dim};
}
MK_HD constexpr int64_t offset_in(const HeadStrides& of, int64_t batch, int64_t row, int64_t head) {
  return batch * of.batch + row * of.row + head * of.head;
}

// With every stride known: one that the caller left out, or that does not count, is that without gaps.
HeadStrides strides_of(const HeadTensor& tensor);

// Throws Error(kInvalidArgument) that names the tensor.  Sizes have been checked.
void check_strides(const HeadTensor& tensor, const char* name, int rank, DeviceKind device);

// A caller's tensor, for a launch.
struct HeadView {
  void* data = nullptr;
  HeadStrides strides;

  template <class T>
  MK_HD T* at(int64_t batch, int64_t row, int64_t head) const {
    return static_cast<T*>(data) + offset_in(strides, batch, row, head);
  }
};
inline HeadView head_view(const HeadTensor& tensor) { return {tensor.data, strides_of(tensor)}; }

}  // namespace mk::attention
