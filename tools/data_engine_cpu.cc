// SPDX-License-Identifier: MIT
// tools/data_engine_cpu.cc — the data engine on all threads of this machine.
#include <algorithm>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/half.h"
#include "base/math.h"
#include "data_engine.h"

namespace mk::tools {
namespace {

// work(first, last) on one piece of [0, count) per thread; the first exception of a piece is thrown here.
template <class Work>
void in_parallel(int64_t count, const Work& work) {
  const int64_t pieces = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, std::max<int64_t>(count, 1));
  std::vector<std::future<void>> running;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t first = count * piece / pieces;
    const int64_t last = count * (piece + 1) / pieces;
    running.push_back(std::async(std::launch::async, [&work, first, last] { work(first, last); }));
  }
  for (std::future<void>& piece : running) piece.get();
}

// Calls work.operator()<T>() with the tensor's element type.
template <class Work>
void with_type(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kBf16: return work.template operator()<Bf16>();
    case DType::kFp16: return work.template operator()<Fp16>();
    case DType::kFp32: return work.template operator()<float>();
  }
}

// A block of the product: so many rows share each pass over the columns of b, and the sums of so many
// columns stay in the first-level cache.
constexpr int64_t kRows = 4;
constexpr int64_t kCols = 256;

struct Sums {
  double ref[kRows][kCols];
  double magnitudes[kRows][kCols];
};

template <class T, DataKind kKind>
void sum_block(const T* a, const float* b, int64_t rows, int64_t cols, int64_t k, int64_t n, Sums& sums) {
  for (int64_t r = 0; r < kRows; ++r) {
    std::fill_n(sums.ref[r], cols, 0.0);
    std::fill_n(sums.magnitudes[r], cols, 0.0);
  }
  for (int64_t inner = 0; inner < k; ++inner) {
    double left[kRows] = {};
    for (int64_t r = 0; r < rows; ++r) left[r] = to_float(a[r * k + inner]);
    const float* right = b + inner * n;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t col = 0; col < cols; ++col) {
        const double product = left[r] * static_cast<double>(right[col]);
        sums.ref[r][col] += product;
        if constexpr (kKind == DataKind::kUniform) sums.magnitudes[r][col] += std::fabs(product);
      }
    }
  }
}

template <class T, DataKind kKind>
void judge_block(const T* c, int64_t rows, int64_t cols, int64_t k, int64_t n, const Rounding& rounding,
                 const Sums& sums, Tally& tally) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t col = 0; col < cols; ++col) {
      const double out = to_float(c[r * n + col]);
      const double ref = sums.ref[r][col];
      if constexpr (kKind == DataKind::kExact) {
        tally.judge(out, to_float(from_float<T>(static_cast<float>(ref))), 0);
      } else {
        tally.judge(out, ref, uniform_tolerance(ref, sums.magnitudes[r][col], k, rounding));
      }
    }
  }
}

template <class T, DataKind kKind>
Tally check_rows(const T* a, const float* b, const T* c, int64_t rows, int64_t k, int64_t n, const Rounding& rounding) {
  Tally tally;
  Sums sums;
  for (int64_t col = 0; col < n; col += kCols) {
    const int64_t cols = min_of(kCols, n - col);
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t height = min_of(kRows, rows - row);
      sum_block<T, kKind>(a + row * k, b + col, height, cols, k, n, sums);
      judge_block<T, kKind>(c + row * n + col, height, cols, k, n, rounding, sums, tally);
    }
  }
  return tally;
}

template <class T>
Tally check_typed(const Tensor& a, const Tensor& b, const Tensor& c, DataKind kind) {
  const int64_t k = a.cols;
  const int64_t n = b.cols;
  std::vector<float> right(k * n);  // every type is exact in it
  const T* b_data = static_cast<const T*>(b.data);
  in_parallel(k * n, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) right[i] = to_float(b_data[i]);
  });

  const Rounding rounding = rounding_of(c.dtype);
  std::mutex mutex;
  Tally total;
  in_parallel(c.rows, [&](int64_t first, int64_t last) {
    const T* a_rows = static_cast<const T*>(a.data) + first * k;
    const T* c_rows = static_cast<const T*>(c.data) + first * n;
    const Tally part =
        kind == DataKind::kExact
            ? check_rows<T, DataKind::kExact>(a_rows, right.data(), c_rows, last - first, k, n, rounding)
            : check_rows<T, DataKind::kUniform>(a_rows, right.data(), c_rows, last - first, k, n, rounding);
    const std::lock_guard lock(mutex);
    total.add(part);
  });
  return total;
}

class CpuDataEngine : public DataEngine {
 public:
  void fill(const Tensor& tensor, const DataSpec& spec) override {
    const uint64_t key = key_of(spec);
    with_type(tensor.dtype, [&]<class T>() {
      T* data = static_cast<T*>(tensor.data);
      in_parallel(tensor.rows * tensor.cols, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) data[i] = from_float<T>(value_at(spec, key, i));
      });
    });
  }

  void poison(const Tensor& tensor) override {
    std::memset(tensor.data, 0xff, tensor.rows * tensor.cols * size_of(tensor.dtype));
  }

  CheckResult check_gemm(const Tensor& a, const Tensor& b, const Tensor& c, DataKind kind) override {
    Tally tally;
    with_type(c.dtype, [&]<class T>() { tally = check_typed<T>(a, b, c, kind); });
    return CheckResult::of(tally);
  }
};

}  // namespace

std::unique_ptr<DataEngine> make_cpu_data_engine() { return std::make_unique<CpuDataEngine>(); }

}  // namespace mk::tools
