// SPDX-License-Identifier: MIT
// tools/bounded_math_cuda.cu — the steps of a reference of experts on the GPU: plain fp64, a kernel a step.
//
// It shares nothing with the kernels it checks: no TMA, no tensor cores, no signals.
#include "base/math.h"
#include "bounded_math.h"
#include "data_kernels.cuh"

namespace mk::tools {
namespace {

// Calls body(i) for the elements of this thread.
template <class Body>
__device__ void for_each_own(int64_t count, Body&& body) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) body(i);
}

template <class T>
__global__ void widen_kernel(const T* x, Bounded* out, int64_t count) {
  for_each_own(count, [&](int64_t i) {
    const double value = to_double(x[i]);
    out[i] = {value, fabs(value)};
  });
}

__global__ void activate_kernel(const Bounded* gate, const Bounded* up, Bounded* out, int64_t count, LayerRule rule) {
  for_each_own(count, [&](int64_t i) { out[i] = activation(gate[i], up[i], rule); });
}

// A BackwardStep with weights in memory of the GPU.
struct BackwardPointers {
  const Bounded* sums;
  const float* weights;
  Bounded* gradients;
  Bounded* scaled;
  Bounded* scores;
};

// A warp makes a row.
template <class T>
__global__ void backward_kernel(BackwardPointers step, const T* kept, int64_t rows, int64_t inter, LayerRule rule) {
  constexpr int kLanes = 32;
  const int64_t warp = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  for (int64_t row = warp; row < rows; row += int64_t{gridDim.x} * kThreads / kLanes) {
    const T* const gates = kept + row * 2 * inter;
    Bounded score;
    for (int64_t i = lane; i < inter; i += kLanes) {
      const BackwardElement made = backward_element(step.sums[row * inter + i], to_double(gates[i]),
                                                    to_double(gates[inter + i]), step.weights[row], rule);
      step.gradients[row * 2 * inter + i] = made.gate;
      step.gradients[(row * 2 + 1) * inter + i] = made.up;
      step.scaled[row * inter + i] = made.scaled;
      score.value += made.score.value;
      score.bound += made.score.bound;
    }
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
      score.value += __shfl_down_sync(0xffffffffu, score.value, lanes);
      score.bound += __shfl_down_sync(0xffffffffu, score.bound, lanes);
    }
    if (lane == 0) step.scores[row] = score;
  }
}

// out [m, n] = left [m, k] · right [k, n]; how far apart their elements are.
template <class T>
struct Product {
  const Bounded* left;
  int64_t left_row;
  int64_t left_inner;
  const T* right;
  int64_t right_inner;
  int64_t right_col;
  Bounded* out;
  int64_t m;
  int64_t n;
  int64_t k;
};

struct Panels {
  Bounded left[kDepth][kSide + 1];  // the extra column spreads transposed stores over the banks
  double right[kDepth][kSide + 1];
};

// Zeros beyond the matrices' edges.
template <class T>
__device__ void load_panels(const Product<T>& p, int64_t row, int64_t col, int64_t inner, Panels& panels) {
  for (int i = threadIdx.x; i < kSide * kDepth; i += kThreads) {
    const int64_t at = inner + i % kDepth;
    const int64_t left_row = row + i / kDepth;
    const int64_t right_col = col + i / kDepth;
    panels.left[i % kDepth][i / kDepth] =
        left_row < p.m && at < p.k ? p.left[left_row * p.left_row + at * p.left_inner] : Bounded{};
    panels.right[i % kDepth][i / kDepth] =
        right_col < p.n && at < p.k ? to_double(p.right[at * p.right_inner + right_col * p.right_col]) : 0.0;
  }
}

__device__ void add_panels(const Panels& panels, int thread_row, int thread_col,
                           Bounded (&sums)[kPerThread][kPerThread]) {
  for (int inner = 0; inner < kDepth; ++inner) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const Bounded left = panels.left[inner][thread_row + i * kStride];
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        const double right = panels.right[inner][thread_col + j * kStride];
        sums[i][j].value += left.value * right;
        sums[i][j].bound += left.bound * fabs(right);
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) multiply_kernel(Product<T> p) {
  __shared__ Panels panels;
  const int thread_row = threadIdx.x / kStride;
  const int thread_col = threadIdx.x % kStride;
  const int64_t tiles_across = ceil_div<int64_t>(p.n, kSide);
  const int64_t num_tiles = ceil_div<int64_t>(p.m, kSide) * tiles_across;
  for (int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const int64_t row = tile / tiles_across * kSide;
    const int64_t col = tile % tiles_across * kSide;
    Bounded sums[kPerThread][kPerThread] = {};
    for (int64_t inner = 0; inner < p.k; inner += kDepth) {
      load_panels(p, row, col, inner, panels);
      __syncthreads();
      add_panels(panels, thread_row, thread_col, sums);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        const int64_t out_row = row + thread_row + i * kStride;
        const int64_t out_col = col + thread_col + j * kStride;
        if (out_row < p.m && out_col < p.n) p.out[out_row * p.n + out_col] = sums[i][j];
      }
    }
  }
}

// Rows may share a target.
__global__ void add_kernel(const Bounded* results, const Target* targets, SlotSum* sums, int64_t rows, int64_t cols) {
  for_each_own(rows * cols, [&](int64_t i) {
    const Target to = targets[i / cols];
    SlotSum part;
    add_weighted(results[i], to.weight, part);
    SlotSum& sum = sums[to.row * cols + i % cols];
    atomicAdd(&sum.ref, part.ref);
    atomicAdd(&sum.parts, part.parts);
    atomicAdd(&sum.error, part.error);
  });
}

template <class T>
__global__ void judge_kernel(const T* out, int64_t rows, int64_t cols, Stored out_is, const SlotSum* sums,
                             LayerRule rule, Tally* total) {
  Tally tally;
  for_each_own(rows * cols, [&](int64_t i) {
    const SlotSum& sum = sums[out_is == Stored::kAsIs ? i : i % cols * rows + i / cols];
    judge_sum(to_double(out[i]), to_double(rounded_to<T>(static_cast<float>(sum.ref))), sum, rule, tally);
  });
  add_to_total(tally, total);
}

unsigned blocks_of_elements(int64_t count) { return blocks_for(ceil_div<int64_t>(count, kThreads)); }

class CudaBoundedMath : public BoundedMath {
 public:
  explicit CudaBoundedMath(runtime::Device& device) : device_(device), total_(device, sizeof(Tally)) {}

  void widen(const Tensor& from, Bounded* to) override {
    const int64_t count = from.rows * from.cols;
    with_device_type(from.dtype, [&]<class T>() {
      widen_kernel<T>
          <<<blocks_of_elements(count), kThreads, 0, cudaStreamLegacy>>>(static_cast<const T*>(from.data), to, count);
    });
    finish("widen a tensor");
  }

  void multiply(const BoundedProduct& product, Bounded* out) override {
    const int64_t m = product.m;
    const int64_t n = product.n();
    const int64_t k = product.k();
    const bool left_as_is = product.left_is == Stored::kAsIs;
    const bool right_as_is = product.right_is == Stored::kAsIs;
    const int64_t tiles = ceil_div<int64_t>(m, kSide) * ceil_div<int64_t>(n, kSide);
    with_device_type(product.right.dtype, [&]<class T>() {
      multiply_kernel<T><<<blocks_for(tiles), kThreads, 0, cudaStreamLegacy>>>(
          {product.left, left_as_is ? k : 1, left_as_is ? 1 : m, static_cast<const T*>(product.right.data),
           right_as_is ? n : 1, right_as_is ? 1 : k, out, m, n, k});
    });
    finish("multiply");
  }

  void activate(const Bounded* gate, const Bounded* up, Bounded* out, int64_t count, const LayerRule& rule) override {
    activate_kernel<<<blocks_of_elements(count), kThreads, 0, cudaStreamLegacy>>>(gate, up, out, count, rule);
    finish("activate");
  }

  void backward(const BackwardStep& step, const LayerRule& rule) override {
    const int64_t rows = step.kept.rows;
    const runtime::Buffer weights = uploaded(step.weights);
    const BackwardPointers pointers{step.sums, weights.as<float>(), step.gradients, step.scaled, step.scores};
    with_device_type(step.kept.dtype, [&]<class T>() {
      backward_kernel<T><<<blocks_of_elements(rows * 32), kThreads, 0, cudaStreamLegacy>>>(
          pointers, static_cast<const T*>(step.kept.data), rows, step.kept.cols / 2, rule);
    });
    finish("make gradients");
  }

  void clear(SlotSum* sums, int64_t count) override {
    check_cuda(cudaMemsetAsync(sums, 0, count * sizeof(SlotSum), cudaStreamLegacy), "clear a reference");
    finish("clear a reference");
  }

  void add(const Bounded* results, int64_t cols, const std::vector<Target>& targets, SlotSum* sums) override {
    const auto rows = static_cast<int64_t>(targets.size());
    const runtime::Buffer to = uploaded(targets);
    add_kernel<<<blocks_of_elements(rows * cols), kThreads, 0, cudaStreamLegacy>>>(results, to.as<Target>(), sums, rows,
                                                                                   cols);
    finish("add results");
  }

  CheckResult check(const Tensor& out, Stored out_is, const SlotSum* sums, const LayerRule& rule) override {
    Tally tally;
    device_.upload(total_.as(), &tally, sizeof(tally));
    with_device_type(out.dtype, [&]<class T>() {
      judge_kernel<T><<<blocks_of_elements(out.rows * out.cols), kThreads, 0, cudaStreamLegacy>>>(
          static_cast<const T*>(out.data), out.rows, out.cols, out_is, sums, rule, total_.as<Tally>());
    });
    finish("check sums");
    device_.download(&tally, total_.as(), sizeof(tally));
    return CheckResult::of(tally);
  }

 private:
  template <class T>
  runtime::Buffer uploaded(const std::vector<T>& values) {
    runtime::Buffer buffer(device_, values.size() * sizeof(T));
    device_.upload(buffer.as(), values.data(), buffer.bytes());
    return buffer;
  }

  runtime::Device& device_;
  const runtime::Buffer total_;
};

}  // namespace

std::unique_ptr<BoundedMath> make_cuda_bounded_math(runtime::Device& device) {
  return std::make_unique<CudaBoundedMath>(device);
}

}  // namespace mk::tools
