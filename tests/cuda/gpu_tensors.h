// SPDX-License-Identifier: MIT
// tests/cuda/gpu_tensors.h — copies of a test's tensors on the GPU, which live as long as it does.
#pragma once

#include <cstring>
#include <vector>

#include "runtime/device.h"
#include "tests/attention/attention_data.h"

namespace mk::test {

class GpuTensors {
 public:
  explicit GpuTensors(runtime::Device& device) : device_(device) {}

  void* keep(const void* data, size_t bytes) {
    runtime::Buffer& buffer = buffers_.emplace_back(device_, bytes);
    device_.upload(buffer.as<void>(), data, bytes);
    return buffer.as<void>();
  }
  HeadTensor keep(const StridedHeads& heads) { return heads.view(keep(heads.bytes.data(), heads.bytes.size())); }
  float* keep(const std::vector<float>& values) {
    return static_cast<float*>(keep(values.data(), values.size() * sizeof(float)));
  }
  // Of all ones in each byte: NaNs.
  void* poison(size_t bytes) {
    const std::vector<std::byte> ones(bytes, std::byte{0xff});
    return keep(ones.data(), bytes);
  }

  // `like` with what is in its memory now, where `tensor` is the view of it.
  StridedHeads now(const HeadTensor& tensor, StridedHeads like) const {
    const auto before = static_cast<std::byte*>(like.view().data) - like.bytes.data();
    device_.download(like.bytes.data(), static_cast<std::byte*>(tensor.data) - before, like.bytes.size());
    return like;
  }
  std::vector<float> floats(const float* data, size_t count) const {
    std::vector<float> values(count);
    device_.download(values.data(), data, count * sizeof(float));
    return values;
  }

 private:
  runtime::Device& device_;
  std::vector<runtime::Buffer> buffers_;
};

inline bool have_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Shapes for a GPU's tiles, with the rows of a rank an even number where the order asks for it.
inline AttentionCase gpu_case(const WorldShape& world, SequenceOrder order, RingAttentionShape shape) {
  if (order == SequenceOrder::kZigzag) shape.rows *= 2;
  return {.world = world, .form = {.order = order}, .shape = shape};
}

}  // namespace mk::test
