// SPDX-License-Identifier: MIT
// tools/bounded_math.h — the steps of a reference of experts, in fp64, where the data lies.
//
// Every number comes with its bound; see layer_judge.h.  A reference is these steps in order, whatever the device.
// All pointers are memory of the device; every call has finished when it returns.
#pragma once

#include <memory>
#include <vector>

#include "layer_backward_judge.h"
#include "layer_judge.h"
#include "mkernel/types.h"
#include "runtime/device.h"

namespace mk::tools {

enum class Stored { kAsIs, kTransposed };

// left [m, k] · right [k, n].
struct BoundedProduct {
  const Bounded* left = nullptr;
  Stored left_is = Stored::kAsIs;
  int64_t m = 0;
  Tensor right;
  Stored right_is = Stored::kAsIs;

  int64_t k() const { return right_is == Stored::kAsIs ? right.rows : right.cols; }
  int64_t n() const { return right_is == Stored::kAsIs ? right.cols : right.rows; }
};

// Where a row of results is added, and what multiplies it.
struct Target {
  int64_t row = 0;
  double weight = 1;
};

// Rows of the backward pass: what is read, and what backward_element makes of each element.
struct BackwardStep {
  const Bounded* sums = nullptr;  // [rows, inter]: dout · w2
  Tensor kept;                    // [rows, 2 · inter]
  std::vector<float> weights;     // [rows]
  Bounded* gradients = nullptr;   // [rows, 2 · inter]
  Bounded* scaled = nullptr;      // [rows, inter]
  Bounded* scores = nullptr;      // [rows]: sums over the row
};

class BoundedMath {
 public:
  virtual ~BoundedMath() = default;

  // The bound of an input is its magnitude.
  virtual void widen(const Tensor& from, Bounded* to) = 0;
  virtual void multiply(const BoundedProduct& product, Bounded* out) = 0;
  // Element by element: see activation in layer_judge.h.
  virtual void activate(const Bounded* gate, const Bounded* up, Bounded* out, int64_t count, const LayerRule& rule) = 0;
  virtual void backward(const BackwardStep& step, const LayerRule& rule) = 0;

  virtual void clear(SlotSum* sums, int64_t count) = 0;
  // Row i of results, weighted, to the row of its target; several may have the same.
  virtual void add(const Bounded* results, int64_t cols, const std::vector<Target>& targets, SlotSum* sums) = 0;
  // Judges every element of out, which the sums have as `out_is` says.
  virtual CheckResult check(const Tensor& out, Stored out_is, const SlotSum* sums, const LayerRule& rule) = 0;
};

std::unique_ptr<BoundedMath> make_cpu_bounded_math();

// Only where a CUDA Device exists.
std::unique_ptr<BoundedMath> make_cuda_bounded_math(runtime::Device& device);

inline std::unique_ptr<BoundedMath> make_bounded_math(runtime::Device& device) {
  return device.kind() == DeviceKind::kCuda ? make_cuda_bounded_math(device) : make_cpu_bounded_math();
}

}  // namespace mk::tools
