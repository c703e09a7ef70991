// SPDX-License-Identifier: MIT
// tests/tools/sum_check_test.cc — the judge of sums over ranks passes what is right and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/matrix.h"
#include "tools/data_engine.h"

namespace mk::test {
namespace {

using tools::DataKind;
using tools::DataSpec;

struct Case {
  int64_t k;
  int parts;
  int64_t largest;
};

constexpr Case kCases[] = {{1, 1, 256},   {256, 16, 256}, {67, 3, 256},          {4096, 16, 2048}, {17, 200, 256},
                           {5, 256, 256}, {1024, 4, 256}, {3, 7, (1 << 24) - 1}, {65536, 8, 256},  {12, 12, 12}};

TEST(DataForSum, ExactSumsNeverExceedWhatTheTypeHolds) {
  for (const Case& at : kCases) {
    const DataSpec spec = tools::data_for_sum(at.k, at.parts, at.largest, 1, 1);
    ASSERT_EQ(spec.kind, DataKind::kExact) << at.k << " " << at.parts;
    const uint64_t key = key_of(spec);
    int64_t most = 0;  // elements of a row that are not zero for certain
    for (int64_t row = 0; row < 50; ++row) {
      int64_t count = 0;
      for (int64_t i = row * at.k; i < (row + 1) * at.k; ++i) count += i % spec.period == 0 ? 1 : 0;
      most = std::max(most, count);
    }
    EXPECT_LE(at.parts * most * spec.magnitude * spec.magnitude, at.largest) << at.k << " " << at.parts;
    for (int64_t i = 0; i < 1000; ++i) {
      const float value = value_at(spec, key, i);
      ASSERT_TRUE(value == std::round(value) && std::fabs(value) <= 1) << value;
    }
  }
}

TEST(DataForSum, EveryColumnIsReadBySomeRow) {
  const DataSpec spec = tools::data_for_sum(256, 16, 256, 1, 1);
  std::vector<int> read(256);
  for (int64_t i = 0; i < 256 * 256; ++i) read[i % 256] += i % spec.period == 0 ? 1 : 0;
  EXPECT_EQ(std::count(read.begin(), read.end(), 0), 0);
}

TEST(DataForSum, SoManyPartsThatNotOneProductFitsAreUniform) {
  EXPECT_EQ(tools::data_for_sum(8, 257, 256, 1, 1).kind, DataKind::kUniform);
}

// Three ranks' parts of a sum, and the sum as an operator would round it.
class SumCheckTest : public testing::TestWithParam<DataKind> {
 protected:
  static constexpr int kParts = 3;
  static constexpr int64_t kM = 6, kN = 9, kK = 20;
  static constexpr DType kType = DType::kBf16;

  SumCheckTest() {
    for (int part = 0; part < kParts; ++part) {
      fill_part(a, part, kM, 0);
      fill_part(b, part, kK, 1);
    }
    for (int64_t row = 0; row < c.rows(); ++row) {
      for (int64_t col = 0; col < kN; ++col) c.set(row, col, sum_at(row, col));
    }
  }

  void fill_part(Matrix& matrix, int part, int64_t rows, uint64_t tensor) {
    DataSpec spec = tools::data_for_sum(kK, kParts, 256, 1, GetParam() == DataKind::kUniform ? 0 : 1);
    spec.tensor = tensor;
    spec.rank = part;
    if (tensor == 1) spec.period = 1;
    Tensor view = matrix.view();
    view.data = static_cast<std::byte*>(view.data) + part * rows * view.cols * size_of(kType);
    view.rows = rows;
    engine->fill(view, spec);
  }

  // Each part rounded, summed in fp32.
  float sum_at(int64_t row, int64_t col) const {
    float sum = 0;
    for (int part = 0; part < kParts; ++part) {
      float of_part = 0;
      for (int64_t k = 0; k < kK; ++k) of_part += a.at(part * kM + kFirstRow + row, k) * b.at(part * kK + k, col);
      sum += to_float(from_float<Bf16>(of_part));
    }
    return sum;
  }

  tools::CheckResult check() {
    return engine->check_sum({a.view(), b.view(), c.view(), kParts, kFirstRow, tools::hops_of(kType, kParts, 1, 3)},
                             GetParam());
  }

  static constexpr int64_t kFirstRow = 2;
  std::unique_ptr<tools::DataEngine> engine = tools::make_cpu_data_engine();
  Matrix a{kType, kParts* kM, kK};
  Matrix b{kType, kParts* kK, kN};
  Matrix c{kType, 3, kN};  // rows 2 to 4 of 6
};

INSTANTIATE_TEST_SUITE_P(Kinds, SumCheckTest, testing::Values(DataKind::kUniform, DataKind::kExact));

TEST_P(SumCheckTest, PassesWhatTheArithmeticGives) {
  EXPECT_EQ(check().wrong, 0);
  EXPECT_LT(check().bound, 0.1) << "the bound says nothing";
}

TEST_P(SumCheckTest, CountsEveryElementThatIsWrong) {
  c.set(0, 0, c.at(0, 0) + 1);
  c.set(2, 8, c.at(2, 8) - 1);
  EXPECT_EQ(check().wrong, 2);
}

TEST_P(SumCheckTest, AnElementNobodyWroteIsWrong) {
  c.poison();
  EXPECT_EQ(check().wrong, c.rows() * kN);
}

TEST(CountDifferent, ComparesBits) {
  const auto engine = tools::make_cpu_data_engine();
  Matrix a(DType::kFp16, 5, 7), b(DType::kFp16, 5, 7);
  EXPECT_EQ(engine->count_different(a.view(), b.view()), 0);
  b.set(4, 6, -0.0f);
  b.set(0, 0, 1.0f);
  EXPECT_EQ(engine->count_different(a.view(), b.view()), 2);
}

}  // namespace
}  // namespace mk::test
