// SPDX-License-Identifier: MIT
// target/cpu/cpu_gemm.h — the maths of one tile as plain loops.
//
// Products and sums are fp32 in order of k; a sum passes the epilogue's hook and is rounded once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/half.h"
#include "target/cpu/cpu_epilogue.h"

namespace mk::cpu {

// Where b[inner, col] lies: the distances, in elements, of neighbours in k and of neighbours in n.
template <class T>
struct RightOperand {
  const T* data;
  int64_t k_step;
  int64_t n_step;
};

// The columns of b from `col` on, k rows and n columns large.
template <class T>
RightOperand<T> right_operand(const void* b, BOrder order, int64_t n, int64_t k, int64_t col) {
  const T* data = static_cast<const T*>(b);
  return order == BOrder::kKN ? RightOperand<T>{data + col, n, 1} : RightOperand<T>{data + col * k, 1, k};
}

// c[rows, cols] = hook(a[rows, k] · b[k, cols]); a and c are row-major, ldc is the length of c's rows.
template <class T, class Hook = Plain>
void gemm_tile(const T* a, const RightOperand<T>& b, T* c, int64_t rows, int64_t cols, int64_t k, int64_t ldc,
               const Hook& hook = {}) {
  std::vector<float> sums(cols);
  for (int64_t row = 0; row < rows; ++row) {
    sums.assign(cols, 0.0f);
    for (int64_t inner = 0; inner < k; ++inner) {
      const float left = to_float(a[row * k + inner]);
      const T* right = b.data + inner * b.k_step;
      for (int64_t col = 0; col < cols; ++col) sums[col] += left * to_float(right[col * b.n_step]);
    }
    for (int64_t col = 0; col < cols; ++col) c[row * ldc + col] = from_float<T>(hook(sums[col], col));
  }
}

// The same with b row-major as [k, n], ldb the length of its rows.
template <class T>
void gemm_tile(const T* a, const T* b, T* c, int64_t rows, int64_t cols, int64_t k, int64_t ldb, int64_t ldc) {
  gemm_tile(a, RightOperand<T>{b, ldb, 1}, c, rows, cols, k, ldc);
}

}  // namespace mk::cpu
