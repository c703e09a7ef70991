// SPDX-License-Identifier: MIT
// tools/bounded_math_cpu.cc — the steps of a reference of experts on all threads of this machine.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/math.h"
#include "bounded_math.h"
#include "host_loops.h"

namespace mk::tools {
namespace {

// A product's right operand as k rows of n; every type is exact in fp32.
std::vector<float> right_rows(const BoundedProduct& product) {
  const Tensor& right = product.right;
  const bool is_transposed = product.right_is == Stored::kTransposed;
  std::vector<float> rows(right.rows * right.cols);
  with_host_type(right.dtype, [&]<class T>() {
    const T* const data = static_cast<const T*>(right.data);
    in_parallel(right.cols, right.rows, [&](int64_t first, int64_t last) {
      for (int64_t row = 0; row < right.rows; ++row) {
        for (int64_t col = first; col < last; ++col) {
          const int64_t at = is_transposed ? col * right.rows + row : row * right.cols + col;
          rows[at] = to_float(data[row * right.cols + col]);
        }
      }
    });
  });
  return rows;
}

// One row of left · right; zeros, which most elements of long rows may be, are passed over.
void multiply_row(const Bounded* left, const float* right, int64_t k, int64_t n, Bounded* out) {
  constexpr int64_t kCols = 256;  // whose sums stay in the first-level cache
  for (int64_t first = 0; first < n; first += kCols) {
    const int64_t cols = min_of(kCols, n - first);
    double value[kCols] = {};
    double bound[kCols] = {};
    for (int64_t inner = 0; inner < k; ++inner) {
      const Bounded from = left[inner];
      if (from.value == 0 && from.bound == 0) continue;
      const float* const from_right = right + inner * n + first;
      for (int64_t col = 0; col < cols; ++col) {
        value[col] += from.value * static_cast<double>(from_right[col]);
        bound[col] += from.bound * std::fabs(static_cast<double>(from_right[col]));
      }
    }
    for (int64_t col = 0; col < cols; ++col) out[first + col] = {value[col], bound[col]};
  }
}

class CpuBoundedMath : public BoundedMath {
 public:
  void widen(const Tensor& from, Bounded* to) override {
    with_host_type(from.dtype, [&]<class T>() {
      const T* const data = static_cast<const T*>(from.data);
      for (int64_t i = 0; i < from.rows * from.cols; ++i) {
        const double value = to_float(data[i]);
        to[i] = {value, std::fabs(value)};
      }
    });
  }

  void multiply(const BoundedProduct& product, Bounded* out) override {
    const int64_t k = product.k();
    const int64_t n = product.n();
    const std::vector<float> right = right_rows(product);
    in_parallel(product.m, n * k, [&](int64_t first, int64_t last) {
      std::vector<Bounded> column(product.left_is == Stored::kTransposed ? k : 0);
      for (int64_t row = first; row < last; ++row) {
        for (int64_t i = 0; i < std::ssize(column); ++i) column[i] = product.left[i * product.m + row];
        multiply_row(column.empty() ? product.left + row * k : column.data(), right.data(), k, n, out + row * n);
      }
    });
  }

  void activate(const Bounded* gate, const Bounded* up, Bounded* out, int64_t count, const LayerRule& rule) override {
    for (int64_t i = 0; i < count; ++i) out[i] = activation(gate[i], up[i], rule);
  }

  void backward(const BackwardStep& step, const LayerRule& rule) override {
    const int64_t inter = step.kept.cols / 2;
    with_host_type(step.kept.dtype, [&]<class T>() {
      in_parallel(step.kept.rows, 64 * inter, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          const T* const gates = static_cast<const T*>(step.kept.data) + row * 2 * inter;
          Bounded score;
          for (int64_t i = 0; i < inter; ++i) {
            const BackwardElement made = backward_element(step.sums[row * inter + i], to_float(gates[i]),
                                                          to_float(gates[inter + i]), step.weights[row], rule);
            step.gradients[row * 2 * inter + i] = made.gate;
            step.gradients[(row * 2 + 1) * inter + i] = made.up;
            step.scaled[row * inter + i] = made.scaled;
            score.value += made.score.value;
            score.bound += made.score.bound;
          }
          step.scores[row] = score;
        }
      });
    });
  }

  void clear(SlotSum* sums, int64_t count) override { std::fill_n(sums, count, SlotSum{}); }

  void add(const Bounded* results, int64_t cols, const std::vector<Target>& targets, SlotSum* sums) override {
    in_parallel(cols, std::ssize(targets), [&](int64_t first, int64_t last) {  // by columns: rows may share a target
      for (size_t row = 0; row < targets.size(); ++row) {
        for (int64_t col = first; col < last; ++col) {
          add_weighted(results[row * cols + col], targets[row].weight, sums[targets[row].row * cols + col]);
        }
      }
    });
  }

  CheckResult check(const Tensor& out, Stored out_is, const SlotSum* sums, const LayerRule& rule) override {
    std::mutex mutex;
    Tally total;
    with_host_type(out.dtype, [&]<class T>() {
      const T* const data = static_cast<const T*>(out.data);
      in_parallel(out.rows, out.cols, [&](int64_t first, int64_t last) {
        Tally own;
        for (int64_t i = first * out.cols; i < last * out.cols; ++i) {
          const int64_t at = out_is == Stored::kAsIs ? i : i % out.cols * out.rows + i / out.cols;
          const SlotSum& sum = sums[at];
          const double exact = to_float(from_float<T>(static_cast<float>(sum.ref)));
          judge_sum(to_float(data[i]), exact, sum, rule, own);
        }
        const std::lock_guard lock(mutex);
        total.add(own);
      });
    });
    return CheckResult::of(total);
  }
};

}  // namespace

std::unique_ptr<BoundedMath> make_cpu_bounded_math() { return std::make_unique<CpuBoundedMath>(); }

}  // namespace mk::tools
