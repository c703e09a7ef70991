// SPDX-License-Identifier: MIT
// tools/layer_reference_cuda.cu — the reference of a layer of experts on the GPU: plain fp64, a kernel a step.
//
// It shares nothing with the kernels it checks: no TMA, no tensor cores, no signals.
#include "base/math.h"
#include "data_kernels.cuh"
#include "layer_reference.h"

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

// out [m, n] = left [m, k] times the transpose of right [n, k].
template <class T>
struct Product {
  const Bounded* left;
  const T* right;
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
    const int64_t right_row = col + i / kDepth;
    panels.left[i % kDepth][i / kDepth] = left_row < p.m && at < p.k ? p.left[left_row * p.k + at] : Bounded{};
    panels.right[i % kDepth][i / kDepth] = right_row < p.n && at < p.k ? to_double(p.right[right_row * p.k + at]) : 0.0;
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

// Where rows of an expert belong.
struct Target {
  int64_t token;
  double weight;
};

// Rows may share a token.
__global__ void add_kernel(const Bounded* results, const Target* targets, SlotSum* sums, int64_t rows, int64_t hidden) {
  for_each_own(rows * hidden, [&](int64_t i) {
    const Target to = targets[i / hidden];
    SlotSum& sum = sums[to.token * hidden + i % hidden];
    atomicAdd(&sum.ref, to.weight * results[i].value);
    atomicAdd(&sum.parts, fabs(to.weight * results[i].value));
    atomicAdd(&sum.error, fabs(to.weight) * results[i].bound);
  });
}

template <class T>
__global__ void judge_kernel(const T* out, const SlotSum* sums, int64_t count, LayerRule rule, Tally* total) {
  Tally tally;
  for_each_own(count, [&](int64_t i) {
    const double seen = to_double(out[i]);
    if (rule.kind == DataKind::kExact) {
      tally.judge(seen, to_double(rounded_to<T>(static_cast<float>(sums[i].ref))), 0);
    } else {
      tally.judge(seen, sums[i].ref, layer_tolerance(sums[i], rule));
    }
  });
  add_to_total(tally, total);
}

unsigned blocks_of_elements(int64_t count) { return blocks_for(ceil_div<int64_t>(count, kThreads)); }

class CudaLayerReference : public LayerReference {
 public:
  CudaLayerReference(runtime::Device& device, const LayerSize& size)
      : device_(device),
        size_(size),
        x_(device, size.rows * size.hidden * sizeof(Bounded)),
        gate_(device, size.rows * size.inter * sizeof(Bounded)),
        up_(device, size.rows * size.inter * sizeof(Bounded)),
        activations_(device, size.rows * size.inter * sizeof(Bounded)),
        results_(device, size.rows * size.hidden * sizeof(Bounded)),
        targets_(device, size.rows * sizeof(Target)),
        sums_(device, size.tokens * size.hidden * sizeof(SlotSum)),
        total_(device, sizeof(Tally)) {}

  void clear(int64_t tokens) override {
    const size_t bytes = tokens * size_.hidden * sizeof(SlotSum);
    check_cuda(cudaMemsetAsync(sums_.as(), 0, bytes, cudaStreamLegacy), "clear a reference");
    finish("clear a reference");
  }

  void add(const ExpertRows& rows, const LayerRule& rule) override {
    const int64_t count = rows.x.rows;
    std::vector<Target> targets(count);
    for (int64_t row = 0; row < count; ++row) targets[row] = {rows.tokens[row], rows.weights[row]};
    device_.upload(targets_.as(), targets.data(), targets.size() * sizeof(Target));
    const int64_t x_elements = count * size_.hidden;
    const int64_t activations = count * size_.inter;
    with_device_type(rows.x.dtype, [&]<class T>() {
      widen_kernel<T><<<blocks_of_elements(x_elements), kThreads, 0, cudaStreamLegacy>>>(
          static_cast<const T*>(rows.x.data), x_.as<Bounded>(), x_elements);
    });
    multiply(x_, count, rows.gate, gate_);
    multiply(x_, count, rows.up, up_);
    activate_kernel<<<blocks_of_elements(activations), kThreads, 0, cudaStreamLegacy>>>(
        gate_.as<Bounded>(), up_.as<Bounded>(), activations_.as<Bounded>(), activations, rule);
    multiply(activations_, count, rows.w2, results_);
    add_kernel<<<blocks_of_elements(x_elements), kThreads, 0, cudaStreamLegacy>>>(
        results_.as<Bounded>(), targets_.as<Target>(), sums_.as<SlotSum>(), count, size_.hidden);
    finish("add rows of an expert");
  }

  CheckResult check(const Tensor& out, const LayerRule& rule) override {
    Tally tally;
    device_.upload(total_.as(), &tally, sizeof(tally));
    const int64_t count = out.rows * out.cols;
    with_device_type(out.dtype, [&]<class T>() {
      judge_kernel<T><<<blocks_of_elements(count), kThreads, 0, cudaStreamLegacy>>>(
          static_cast<const T*>(out.data), sums_.as<SlotSum>(), count, rule, total_.as<Tally>());
    });
    finish("check a layer");
    device_.download(&tally, total_.as(), sizeof(tally));
    return CheckResult::of(tally);
  }

 private:
  // The rows times the transpose of the weights.
  void multiply(const runtime::Buffer& left, int64_t rows, const Tensor& weights, const runtime::Buffer& out) {
    with_device_type(weights.dtype, [&]<class T>() {
      const Product<T> product{
          left.as<Bounded>(), static_cast<const T*>(weights.data), out.as<Bounded>(), rows, weights.rows, weights.cols};
      const int64_t tiles = ceil_div<int64_t>(rows, kSide) * ceil_div<int64_t>(weights.rows, kSide);
      multiply_kernel<T><<<blocks_for(tiles), kThreads, 0, cudaStreamLegacy>>>(product);
    });
  }

  runtime::Device& device_;
  const LayerSize size_;
  const runtime::Buffer x_, gate_, up_, activations_, results_;
  const runtime::Buffer targets_;
  const runtime::Buffer sums_;
  const runtime::Buffer total_;
};

}  // namespace

std::unique_ptr<LayerReference> make_cuda_layer_reference(runtime::Device& device, const LayerSize& size) {
  return std::make_unique<CudaLayerReference>(device, size);
}

}  // namespace mk::tools
