// SPDX-License-Identifier: MIT
// tools/layer_reference_cpu.cc — the reference of a layer of experts on all threads of this machine.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/math.h"
#include "host_loops.h"
#include "layer_reference.h"

namespace mk::tools {
namespace {

using BoundedRows = std::vector<Bounded>;

// A matrix of n rows of k as k rows of n; every type is exact in fp32.
std::vector<float> transposed(const Tensor& matrix) {
  std::vector<float> columns(matrix.rows * matrix.cols);
  with_host_type(matrix.dtype, [&]<class T>() {
    const T* const data = static_cast<const T*>(matrix.data);
    in_parallel(matrix.cols, matrix.rows, [&](int64_t first, int64_t last) {
      for (int64_t row = 0; row < matrix.rows; ++row) {
        for (int64_t col = first; col < last; ++col) {
          columns[col * matrix.rows + row] = to_float(data[row * matrix.cols + col]);
        }
      }
    });
  });
  return columns;
}

// One row of left · columns; zeros, which most elements of long rows are, are passed over.
void multiply_row(const Bounded* left, const float* columns, int64_t k, int64_t n, Bounded* out) {
  constexpr int64_t kCols = 256;  // whose sums stay in the first-level cache
  for (int64_t first = 0; first < n; first += kCols) {
    const int64_t cols = min_of(kCols, n - first);
    double value[kCols] = {};
    double bound[kCols] = {};
    for (int64_t inner = 0; inner < k; ++inner) {
      const Bounded from = left[inner];
      if (from.value == 0 && from.bound == 0) continue;
      const float* const right = columns + inner * n + first;
      for (int64_t col = 0; col < cols; ++col) {
        value[col] += from.value * static_cast<double>(right[col]);
        bound[col] += from.bound * std::fabs(static_cast<double>(right[col]));
      }
    }
    for (int64_t col = 0; col < cols; ++col) out[first + col] = {value[col], bound[col]};
  }
}

// [rows, k] times the transpose of weights [n, k].
BoundedRows multiply(const BoundedRows& left, int64_t rows, const Tensor& weights) {
  const int64_t k = weights.cols;
  const int64_t n = weights.rows;
  const std::vector<float> columns = transposed(weights);
  BoundedRows out(rows * n);
  in_parallel(rows, n * k, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) multiply_row(&left[row * k], columns.data(), k, n, &out[row * n]);
  });
  return out;
}

BoundedRows widened(const Tensor& x) {
  BoundedRows rows(x.rows * x.cols);
  with_host_type(x.dtype, [&]<class T>() {
    const T* const data = static_cast<const T*>(x.data);
    for (size_t i = 0; i < rows.size(); ++i) {
      const double value = to_float(data[i]);
      rows[i] = {value, std::fabs(value)};
    }
  });
  return rows;
}

template <class T>
void judge(const T* out, const SlotSum* sums, int64_t count, const LayerRule& rule, Tally& tally) {
  for (int64_t i = 0; i < count; ++i) {
    const double seen = to_float(out[i]);
    if (rule.kind == DataKind::kExact) {
      tally.judge(seen, to_float(from_float<T>(static_cast<float>(sums[i].ref))), 0);
    } else {
      tally.judge(seen, sums[i].ref, layer_tolerance(sums[i], rule));
    }
  }
}

class CpuLayerReference : public LayerReference {
 public:
  explicit CpuLayerReference(const LayerSize& size) : hidden_(size.hidden) {}

  void clear(int64_t tokens) override { sums_.assign(tokens * hidden_, {}); }

  void add(const ExpertRows& rows, const LayerRule& rule) override {
    BoundedRows activations;
    {
      const BoundedRows x = widened(rows.x);
      activations = multiply(x, rows.x.rows, rows.gate);
      const BoundedRows up = multiply(x, rows.x.rows, rows.up);
      for (size_t i = 0; i < up.size(); ++i) activations[i] = activation(activations[i], up[i], rule);
    }
    const BoundedRows results = multiply(activations, rows.x.rows, rows.w2);
    in_parallel(hidden_, rows.x.rows, [&](int64_t first, int64_t last) {  // by columns: rows may share a token
      for (int64_t row = 0; row < rows.x.rows; ++row) {
        const double weight = rows.weights[row];
        for (int64_t col = first; col < last; ++col) {
          const Bounded& result = results[row * hidden_ + col];
          SlotSum& sum = sums_[rows.tokens[row] * hidden_ + col];
          sum.ref += weight * result.value;
          sum.parts += std::fabs(weight * result.value);
          sum.error += std::fabs(weight) * result.bound;
        }
      }
    });
  }

  CheckResult check(const Tensor& out, const LayerRule& rule) override {
    std::mutex mutex;
    Tally total;
    with_host_type(out.dtype, [&]<class T>() {
      in_parallel(out.rows * out.cols, 1, [&](int64_t first, int64_t last) {
        Tally own;
        judge(static_cast<const T*>(out.data) + first, sums_.data() + first, last - first, rule, own);
        const std::lock_guard lock(mutex);
        total.add(own);
      });
    });
    return CheckResult::of(total);
  }

 private:
  const int64_t hidden_;
  std::vector<SlotSum> sums_;  // [token][hidden]
};

}  // namespace

std::unique_ptr<LayerReference> make_cpu_layer_reference(const LayerSize& size) {
  return std::make_unique<CpuLayerReference>(size);
}

}  // namespace mk::tools
