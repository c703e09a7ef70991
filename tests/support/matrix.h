// SPDX-License-Identifier: MIT
// tests/support/matrix.h — memory for one Tensor, exactly as large as it says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "mkernel/types.h"

namespace mk::test {

class Matrix {
 public:
  Matrix(DType dtype, int64_t rows, int64_t cols)
      : dtype_(dtype), rows_(rows), cols_(cols), bytes_(rows * cols * size_of(dtype)) {}

  Tensor view() { return {bytes_.data(), dtype_, rows_, cols_}; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // All bits set is a NaN in every dtype.
  void poison() { std::memset(bytes_.data(), 0xff, bytes_.size()); }

  void set(int64_t row, int64_t col, float value) {
    switch (dtype_) {
      case DType::kBf16: return store(row, col, from_float<Bf16>(value));
      case DType::kFp16: return store(row, col, from_float<Fp16>(value));
      case DType::kFp32: return store(row, col, value);
    }
  }

  float at(int64_t row, int64_t col) const {
    switch (dtype_) {
      case DType::kBf16: return to_float(load<Bf16>(row, col));
      case DType::kFp16: return to_float(load<Fp16>(row, col));
      case DType::kFp32: break;
    }
    return load<float>(row, col);
  }

  // All elements, row after row.
  std::vector<float> values() const {
    switch (dtype_) {
      case DType::kBf16: return all<Bf16>();
      case DType::kFp16: return all<Fp16>();
      case DType::kFp32: break;
    }
    return all<float>();
  }

 private:
  template <class T>
  void store(int64_t row, int64_t col, T value) {
    std::memcpy(bytes_.data() + (row * cols_ + col) * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  T load(int64_t row, int64_t col) const {
    T value;
    std::memcpy(&value, bytes_.data() + (row * cols_ + col) * sizeof(T), sizeof(T));
    return value;
  }

  template <class T>
  std::vector<float> all() const {
    std::vector<float> values(rows_ * cols_);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t col = 0; col < cols_; ++col) values[row * cols_ + col] = to_float(load<T>(row, col));
    }
    return values;
  }

  DType dtype_;
  int64_t rows_;
  int64_t cols_;
  std::vector<std::byte> bytes_;
};

}  // namespace mk::test
