// SPDX-License-Identifier: MIT
// tests/support/op_table.cc — the table, and what rows are made of.
#include "tests/support/op_table.h"

namespace mk::test {

const OpRow& row_of(Op op) {
  switch (op) {
    case Op::kAgGemm: return ag_gemm_row();
    case Op::kGemmRs: return gemm_rs_row();
    case Op::kGemmAr: return gemm_ar_row(AllReducePath::kTwoShot);
    case Op::kGemmArOneShot: return gemm_ar_row(AllReducePath::kOneShot);
  }
  throw std::logic_error("an operator without a row");
}

std::string name_of(Op op) { return row_of(op).name(); }

std::string name_of(const GemmForm& form) {
  std::string name = form.b_order == BOrder::kKN ? "KN" : "NK";
  if (form.has_bias) name += "_bias";
  if (form.activation != Activation::kNone) name += std::string("_") + name_of(form.activation);
  return name;
}

void fill(Matrix& matrix, Data data, std::mt19937_64& random) {
  std::uniform_int_distribution<int> whole(-4, 4);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    for (int64_t col = 0; col < matrix.cols(); ++col) {
      matrix.set(row, col, data == Data::kExact ? static_cast<float>(whole(random)) : uniform(random));
    }
  }
}

Matrix matrix_b(const OpCase& at, Data data, std::mt19937_64& random) {
  const bool is_kn = at.form.b_order == BOrder::kKN;
  Matrix b(at.dtype, is_kn ? at.shape.k : at.shape.n, is_kn ? at.shape.n : at.shape.k);
  fill(b, data, random);
  return b;
}

std::vector<float> values_of_b(const Matrix& b, const OpCase& at) {
  const std::vector<float> stored = b.values();
  if (at.form.b_order == BOrder::kKN) return stored;
  const Shape& shape = at.shape;
  std::vector<float> values(stored.size());
  for (int64_t inner = 0; inner < shape.k; ++inner) {
    for (int64_t col = 0; col < shape.n; ++col) values[inner * shape.n + col] = stored[col * shape.k + inner];
  }
  return values;
}

}  // namespace mk::test
