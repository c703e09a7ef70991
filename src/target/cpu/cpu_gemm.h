// SPDX-License-Identifier: MIT
// target/cpu/cpu_gemm.h — the maths of one tile as plain loops.
//
// Products and sums are fp32 in order of k; the result is rounded once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/half.h"

namespace mk::cpu {

// Where b[inner, col] lies: the distances, in elements, of neighbours in k and of neighbours in n.
template <class T>
struct RightOperand {
  const T* data;
  int64_t k_step;
  int64_t n_step;
};

// c[rows, cols] = a[rows, k] · b[k, cols]; a and c are row-major, ldc is the length of c's rows.
template <class T>
void gemm_tile(const T* a, const RightOperand<T>& b, T* c, int64_t rows, int64_t cols, int64_t k, int64_t ldc) {
  std::vector<float> sums(cols);
  for (int64_t row = 0; row < rows; ++row) {
    sums.assign(cols, 0.0f);
    for (int64_t inner = 0; inner < k; ++inner) {
      const float left = to_float(a[row * k + inner]);
      const T* right = b.data + inner * b.k_step;
      for (int64_t col = 0; col < cols; ++col) sums[col] += left * to_float(right[col * b.n_step]);
    }
    for (int64_t col = 0; col < cols; ++col) c[row * ldc + col] = from_float<T>(sums[col]);
  }
}

// The same with b row-major as [k, n], ldb the length of its rows.
template <class T>
void gemm_tile(const T* a, const T* b, T* c, int64_t rows, int64_t cols, int64_t k, int64_t ldb, int64_t ldc) {
  gemm_tile(a, RightOperand<T>{b, ldb, 1}, c, rows, cols, k, ldc);
}

}  // namespace mk::cpu
