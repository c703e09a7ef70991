// SPDX-License-Identifier: MIT
// tests/cuda/device_array.h — memory of the GPU for a test's own kernel.
#pragma once

#include <cstddef>
#include <vector>

#include "base/cuda_api.h"

namespace mk::test {

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    check_cuda(cudaMalloc(&data_, bytes()), "allocate on the device");
    check_cuda(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "copy to the device");
  }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t bytes() const { return size_ * sizeof(T); }

  // What is there when everything launched so far is done.
  std::vector<T> read() const {
    check_cuda(cudaDeviceSynchronize(), "run a test's kernel");
    std::vector<T> values(size_);
    check_cuda(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copy from the device");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace mk::test
