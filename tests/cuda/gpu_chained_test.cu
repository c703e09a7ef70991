// SPDX-License-Identifier: MIT
// tests/cuda/gpu_chained_test.cu — two products with SwiGLU between them in one launch: exact, within a bound, and
// given up in time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "target/sm90/tensor_map.h"
#include "tests/cuda/chained_kernel.cuh"
#include "tests/cuda/chained_reference.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/gpu_launch.h"

namespace mk::sm90 {
namespace {

using test::DeviceArray;

template <class Element>
constexpr DType kDTypeOf = std::is_same_v<Element, __half> ? DType::kFp16 : DType::kBf16;

template <class Element>
struct ChainedResult {
  std::vector<Element> h;
  std::vector<Element> c;
  uint64_t gave_up = 0;
};

struct RunOptions {
  int blocks = 1;
  int missing = 0;
  uint64_t timeout_ns = 5'000'000'000;
};

constexpr int kGuard = 100;  // rows behind H and C, which nobody may touch

template <class Config, class Element, BOrder kOrder>
ChainedResult<Element> run(const ChainedCase& at, const ChainedData& data, const RunOptions& options) {
  using Folded = ResultBoxes<Config, 2, 2>;
  static_assert(ResultBoxes<Config>::kNarrow == 0 && (Folded::kNarrow == 0 || Folded::kPartN == Folded::kNarrow));
  constexpr int kHCols = Folded::kNarrow > 0 ? Folded::kNarrow : Folded::kCols;
  Element nan;
  std::memset(&nan, 0xff, sizeof(nan));
  const bool is_transposed = kOrder == BOrder::kNK;
  const DeviceArray a(data.a.laid_out<Element>(false));
  const DeviceArray b1(data.b1().laid_out<Element>(is_transposed));
  const DeviceArray b2(data.b2.laid_out<Element>(is_transposed));
  const DeviceArray h(std::vector<Element>(static_cast<size_t>(at.m + kGuard) * at.inner, nan));
  const DeviceArray c(std::vector<Element>(static_cast<size_t>(at.m + kGuard) * at.n, nan));
  const DeviceArray counters(std::vector<uint64_t>(ceil_div(at.m, Config::kTileM)));
  const DeviceArray gave_up(std::vector<uint64_t>(1));

  const DType dtype = kDTypeOf<Element>;
  const ShardedMatrix h_matrix{h.data(), dtype, at.inner, at.m, 1};
  ChainedParams params{};
  params.a = make_tensor_map(ShardedMatrix{a.data(), dtype, at.k, at.m, 1}, Config::kTileK, Config::kTileM);
  params.b1 = make_right_map<Config, kOrder>(b1.data(), dtype, 2 * at.inner, at.k);
  params.h_boxes = make_tensor_map(h_matrix, kHCols, Folded::kRows);
  params.h = make_tensor_map(h_matrix, Config::kTileK, Config::kTileM);
  params.b2 = make_right_map<Config, kOrder>(b2.data(), dtype, at.n, at.inner);
  params.c = make_tensor_map(ShardedMatrix{c.data(), dtype, at.n, at.m, 1}, Config::kBox, Config::kBox);
  params.counters = counters.data();
  params.gave_up = gave_up.data();
  params.timeout_ns = options.timeout_ns;
  params.missing = options.missing;
  params.m = at.m;
  params.inner = at.inner;
  params.n = at.n;
  params.k = at.k;
  test::launch_jobs<Config, Element>(chained_kernel<Config, Element, kOrder>, params, options.blocks);
  return {h.read(), c.read(), gave_up.read()[0]};
}

enum class Data { kExact, kUniform };

template <class Element>
void expect_right(const ChainedCase& at, const ChainedData& data, Data kind, const ChainedResult<Element>& seen) {
  const tools::Rounding rounding = tools::rounding_of(kDTypeOf<Element>);
  const auto expect_near = [&](Element out, const Judged& exact, const char* matrix, int row, int col) {
    if (kind == Data::kExact) {
      const Element expected = static_cast<Element>(static_cast<float>(exact.value));
      EXPECT_EQ(static_cast<float>(out), static_cast<float>(expected))
          << matrix << ", row " << row << ", column " << col;
    } else {
      const double tolerance = rounded(exact, rounding).off;
      EXPECT_LE(std::abs(static_cast<double>(static_cast<float>(out)) - exact.value), tolerance)
          << matrix << ", row " << row << ", column " << col;
    }
    return !testing::Test::HasFailure();
  };
  for (int row = 0; row < at.m; ++row) {
    std::vector<Judged> h(at.inner);
    for (int j = 0; j < at.inner; ++j) {
      Product gate;
      Product up;
      for (int k = 0; k < at.k; ++k) {
        gate.add({data.gate(k, j), 0}, data.a(row, k));
        up.add({data.up(k, j), 0}, data.a(row, k));
      }
      const Judged exact = swiglu(gate.judged(), up.judged());
      if (!expect_near(seen.h[static_cast<size_t>(row) * at.inner + j], exact, "H", row, j)) return;
      h[j] = rounded(exact, rounding);
      if (kind == Data::kExact) h[j].value = std::nearbyint(exact.value);  // silu(32) in doubles is not quite 32
    }
    for (int col = 0; col < at.n; ++col) {
      Product c;
      for (int j = 0; j < at.inner; ++j) c.add(h[j], data.b2(j, col));
      if (!expect_near(seen.c[static_cast<size_t>(row) * at.n + col], c.judged(), "C", row, col)) return;
    }
  }
  const auto expect_untouched = [&](const std::vector<Element>& all, int cols) {
    for (size_t i = static_cast<size_t>(at.m) * cols; i < all.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, &all[i], sizeof(bits));
      ASSERT_EQ(bits, 0xffff) << "rows behind the last were written";
    }
  };
  expect_untouched(seen.h, at.inner);
  expect_untouched(seen.c, at.n);
}

template <class Config, class Element, BOrder kOrder>
void expect_right_everywhere() {
  for (const ChainedCase& at : kCases) {
    for (const Data kind : {Data::kExact, Data::kUniform}) {
      const ChainedData data = kind == Data::kExact ? exact_data(at) : uniform_data(at);
      for (const int blocks : {1, 3, 100}) {  // all tiles in one; several in each; most have none, or one
        SCOPED_TRACE(testing::Message() << Config::kTileM << "x" << Config::kTileN << ", m " << at.m << ", inner "
                                        << at.inner << ", n " << at.n << ", k " << at.k << ", " << blocks
                                        << " blocks, data " << static_cast<int>(kind) << ", B " << name_of(kOrder));
        const auto seen = run<Config, Element, kOrder>(at, data, {.blocks = blocks});
        ASSERT_EQ(seen.gave_up, 0u);
        expect_right<Element>(at, data, kind, seen);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(GpuChained, WideTilesAreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<GemmConfig<128, 256, 2, 1>, __nv_bfloat16, BOrder::kKN>();
  expect_right_everywhere<GemmConfig<128, 256, 2, 1, 1>, __half, BOrder::kNK>();
}

TEST(GpuChained, TallTilesAreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<GemmConfig<256, 128, 2, 1, 1>, __nv_bfloat16, BOrder::kNK>();
}

TEST(GpuChained, SquareTilesAreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<GemmConfig<128, 128, 2, 1, 1>, __half, BOrder::kKN>();
}

// A consumer's part of H is 32 columns: every box of it is narrow.
TEST(GpuChained, LowTilesAreRight) {
  MK_NEEDS_GPU();
  expect_right_everywhere<GemmConfig<64, 128, 1, 1, 1>, __nv_bfloat16, BOrder::kKN>();
}

// Every job comes to its end, and nothing is stored of tiles whose rows never came.
TEST(GpuChained, RowsThatDoNotComeInTimeEndTheLaunch) {
  MK_NEEDS_GPU();
  using Config = GemmConfig<128, 128, 2, 1, 1>;
  const ChainedCase at = kCases[0];
  const ChainedData data = exact_data(at);
  constexpr int kBlocks = 5;
  const auto seen =
      run<Config, __nv_bfloat16, BOrder::kKN>(at, data, {.blocks = kBlocks, .missing = 1, .timeout_ns = 5'000'000});
  EXPECT_EQ(seen.gave_up, uint64_t{kBlocks}) << "each has tiles of C";
  for (const __nv_bfloat16 value : seen.c) ASSERT_TRUE(std::isnan(static_cast<float>(value)));
  for (size_t i = 0; i < static_cast<size_t>(at.m) * at.inner; ++i) {
    ASSERT_FALSE(std::isnan(static_cast<float>(seen.h[i]))) << "tiles before are stored";
  }
}

}  // namespace
}  // namespace mk::sm90
