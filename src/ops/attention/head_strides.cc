// SPDX-License-Identifier: MIT
// ops/attention/head_strides.cc — see head_strides.h.
#include "ops/attention/head_strides.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace mk::attention {
namespace {

struct NamedStride {
  const char* name;
  int64_t size;  // how many there are
  int64_t stride;
};

std::array<NamedStride, 3> named(const HeadTensor& tensor, const HeadStrides& of) {
  return {{{"batch", tensor.batch, of.batch}, {"row", tensor.rows, of.row}, {"head", tensor.heads, of.head}}};
}

}  // namespace

HeadStrides strides_of(const HeadTensor& tensor) {
  HeadStrides strides = without_gaps(tensor.rows, tensor.heads, tensor.dim);
  if (tensor.batch > 1 && tensor.strides.batch != 0) strides.batch = tensor.strides.batch;
  if (tensor.rows > 1 && tensor.strides.row != 0) strides.row = tensor.strides.row;
  if (tensor.heads > 1 && tensor.strides.head != 0) strides.head = tensor.strides.head;
  return strides;
}

void check_strides(const HeadTensor& tensor, const char* name, int rank, DeviceKind device) {
  for (const NamedStride& of : named(tensor, tensor.strides)) {
    check_arg(of.stride >= 0, "{} of rank {} has a {} stride of {}; it must be positive, or 0 as without gaps", name,
              rank, of.name, of.stride);
  }
  std::array<NamedStride, 3> all = named(tensor, strides_of(tensor));
  std::ranges::stable_sort(all, {}, &NamedStride::stride);
  constexpr int64_t kMostElements = int64_t{1} << 48;  // from the first to the last: no offset overflows
  int64_t inside = tensor.dim;
  for (const NamedStride& of : all) {
    if (of.size == 1) continue;
    check_arg(
        of.stride >= inside,
        "{} of rank {} has a {} stride of {}; it must be at least {}, what lies inside: elements must not overlap",
        name, rank, of.name, of.stride, inside);
    const int64_t most = (kMostElements - inside) / (of.size - 1);
    check_arg(of.stride <= most, "{} of rank {} has a {} stride of {}; it must be at most {}: 2^48 elements in all",
              name, rank, of.name, of.stride, most);
    inside += (of.size - 1) * of.stride;
  }
  if (device != DeviceKind::kCuda) return;
  constexpr int64_t kMostBytes = int64_t{1} << 40;  // of TMA
  for (const NamedStride& of : all) {
    const int64_t bytes = of.stride * static_cast<int64_t>(size_of(tensor.dtype));
    check_arg(bytes % 16 == 0 && bytes < kMostBytes,
              "{} of rank {} has a {} stride of {} bytes; on cuda it must be a multiple of 16 below 2^40", name, rank,
              of.name, bytes);
  }
}

}  // namespace mk::attention
