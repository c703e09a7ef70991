// SPDX-License-Identifier: MIT
// tools/data_engine_cpu.cc — the data engine on all threads of this machine.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/half.h"
#include "base/math.h"
#include "data_engine.h"
#include "host_loops.h"

namespace mk::tools {
namespace {

// A block of the product: so many rows share each pass over the columns of b, and the sums of so many
// columns stay in the first-level cache.
constexpr int64_t kRows = 4;
constexpr int64_t kCols = 256;

struct Sums {
  double part[kRows][kCols];
  double ref[kRows][kCols] = {};
  double magnitudes[kRows][kCols] = {};
  double parts[kRows][kCols] = {};
};

// A row of blocks: where its operands and results begin, and how far apart the parts of a are.
template <class T>
struct Rows {
  const T* a;
  int64_t a_part;
  const T* c;
  int64_t count;
};

struct Shape {
  int parts;
  int64_t k;
  int64_t n;
};

template <class T, DataKind kKind>
void add_part(const T* a, const float* b, int64_t rows, int64_t cols, int64_t k, int64_t n, Sums& sums) {
  for (int64_t r = 0; r < kRows; ++r) std::fill_n(sums.part[r], cols, 0.0);
  for (int64_t inner = 0; inner < k; ++inner) {
    double left[kRows] = {};
    for (int64_t r = 0; r < rows; ++r) left[r] = to_float(a[r * k + inner]);
    const float* right = b + inner * n;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t col = 0; col < cols; ++col) {
        const double product = left[r] * static_cast<double>(right[col]);
        sums.part[r][col] += product;
        if constexpr (kKind == DataKind::kUniform) sums.magnitudes[r][col] += std::fabs(product);
      }
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t col = 0; col < cols; ++col) {
      sums.ref[r][col] += sums.part[r][col];
      sums.parts[r][col] += std::fabs(sums.part[r][col]);
    }
  }
}

template <class T, DataKind kKind>
void judge_block(const T* c, int64_t rows, int64_t cols, const Shape& shape, const Rounding& rounding, const Hops& hops,
                 const Sums& sums, Tally& tally) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t col = 0; col < cols; ++col) {
      const double out = to_float(c[r * shape.n + col]);
      const ExactSum sum{sums.ref[r][col], sums.magnitudes[r][col], sums.parts[r][col]};
      if constexpr (kKind == DataKind::kExact) {
        tally.judge(out, to_float(from_float<T>(static_cast<float>(sum.ref))), 0);
      } else {
        tally.judge(out, sum.ref, uniform_tolerance(sum, shape.k, rounding, hops));
      }
    }
  }
}

template <class T, DataKind kKind>
Tally check_rows(const Rows<T>& rows, const float* b, const Shape& shape, const Hops& hops, const Rounding& rounding) {
  Tally tally;
  for (int64_t col = 0; col < shape.n; col += kCols) {
    const int64_t cols = min_of(kCols, shape.n - col);
    for (int64_t row = 0; row < rows.count; row += kRows) {
      const int64_t height = min_of(kRows, rows.count - row);
      Sums sums;
      for (int part = 0; part < shape.parts; ++part) {
        add_part<T, kKind>(rows.a + part * rows.a_part + row * shape.k, b + part * shape.k * shape.n + col, height,
                           cols, shape.k, shape.n, sums);
      }
      judge_block<T, kKind>(rows.c + row * shape.n + col, height, cols, shape, rounding, hops, sums, tally);
    }
  }
  return tally;
}

template <class T>
Tally check_typed(const SumCheck& check, DataKind kind) {
  const Shape shape{check.parts, check.a.cols, check.b.cols};
  const int64_t b_size = check.b.rows * check.b.cols;
  std::vector<float> right(b_size);  // every type is exact in it
  const T* b_data = static_cast<const T*>(check.b.data);
  in_parallel(b_size, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) right[i] = to_float(b_data[i]);
  });

  const Rounding rounding = rounding_of(check.c.dtype);
  const int64_t a_part = check.a.rows / check.parts * shape.k;
  std::mutex mutex;
  Tally total;
  in_parallel(check.c.rows, shape.parts * shape.k * shape.n, [&](int64_t first, int64_t last) {
    const Rows<T> rows{static_cast<const T*>(check.a.data) + (check.first_row + first) * shape.k, a_part,
                       static_cast<const T*>(check.c.data) + first * shape.n, last - first};
    const Tally part = kind == DataKind::kExact
                           ? check_rows<T, DataKind::kExact>(rows, right.data(), shape, check.hops, rounding)
                           : check_rows<T, DataKind::kUniform>(rows, right.data(), shape, check.hops, rounding);
    const std::lock_guard lock(mutex);
    total.add(part);
  });
  return total;
}

class CpuDataEngine : public DataEngine {
 public:
  void fill(const Tensor& tensor, const DataSpec& spec) override {
    const uint64_t key = key_of(spec);
    with_host_type(tensor.dtype, [&]<class T>() {
      T* data = static_cast<T*>(tensor.data);
      in_parallel(tensor.rows * tensor.cols, 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) data[i] = from_float<T>(value_at(spec, key, i));
      });
    });
  }

  void fill_rows(const Tensor& tensor, const DataSpec& spec, const std::vector<RowSource>& sources) override {
    with_host_type(tensor.dtype, [&]<class T>() {
      T* data = static_cast<T*>(tensor.data);
      in_parallel(tensor.rows, tensor.cols, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          DataSpec own = spec;
          own.rank = sources[row].rank;
          const uint64_t key = key_of(own);
          for (int64_t col = 0; col < tensor.cols; ++col) {
            data[row * tensor.cols + col] = from_float<T>(value_at(own, key, sources[row].row * tensor.cols + col));
          }
        }
      });
    });
  }

  void poison(const Tensor& tensor) override {
    std::memset(tensor.data, 0xff, tensor.rows * tensor.cols * size_of(tensor.dtype));
  }

  CheckResult check_sum(const SumCheck& check, DataKind kind) override {
    Tally tally;
    with_host_type(check.c.dtype, [&]<class T>() { tally = check_typed<T>(check, kind); });
    return CheckResult::of(tally);
  }

  int64_t count_different(const Tensor& a, const Tensor& b) override {
    const int64_t element = size_of(a.dtype);
    const auto* left = static_cast<const std::byte*>(a.data);
    const auto* right = static_cast<const std::byte*>(b.data);
    std::atomic<int64_t> different = 0;
    in_parallel(a.rows * a.cols, 1, [&](int64_t first, int64_t last) {
      int64_t found = 0;
      for (int64_t i = first; i < last; ++i) {
        found += std::memcmp(left + i * element, right + i * element, element) != 0 ? 1 : 0;
      }
      different += found;
    });
    return different;
  }
};

}  // namespace

std::unique_ptr<DataEngine> make_cpu_data_engine() { return std::make_unique<CpuDataEngine>(); }

}  // namespace mk::tools
