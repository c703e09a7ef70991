// SPDX-License-Identifier: MIT
// tools/attention_backward_math_cuda.cu — the steps of a reference of attention's gradients on the GPU: plain fp64, a
// kernel a step.
//
// It shares nothing with the kernels it checks: no TMA, no tensor cores, no signals.
#include "attention_backward_math.h"
#include "base/math.h"
#include "data_kernels.cuh"

namespace mk::tools {
namespace {

template <class T>
__global__ void fill_rows_kernel(T* to, int64_t count, AttentionTensor which, AttentionValues values, Shard shard,
                                 int64_t batch, int64_t head) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t position = shard.position_of(i / values.dim);
    to[i] = rounded_to<T>(attention_value(values, which, batch, position, head, i % values.dim));
  }
}

// Rows of one head: [count, dim].
template <class T>
struct DeviceRows {
  const T* first;
  int64_t count;
  int64_t dim;

  __device__ double at(int64_t row, int64_t d) const {
    return row < count && d < dim ? to_double(first[row * dim + d]) : 0.0;
  }
};

struct DotPanels {
  double left[kDepth][kSide + 1];  // the extra column spreads transposed stores over the banks
  double right[kDepth][kSide + 1];
};

using Dots = double[kPerThread][kPerThread];

// Products of 64 rows with 64 rows: a thread's are those from threadIdx / kStride and threadIdx % kStride on, kStride
// apart.
template <class T>
__device__ void multiply_rows(const DeviceRows<T>& left, int64_t left_row, const DeviceRows<T>& right,
                              int64_t right_row, DotPanels& panels, Dots& dots) {
  const int thread_row = threadIdx.x / kStride;
  const int thread_col = threadIdx.x % kStride;
  for (int i = 0; i < kPerThread; ++i) {
    for (int j = 0; j < kPerThread; ++j) dots[i][j] = 0;
  }
  for (int64_t inner = 0; inner < left.dim; inner += kDepth) {
    for (int i = threadIdx.x; i < kSide * kDepth; i += kThreads) {
      panels.left[i % kDepth][i / kDepth] = left.at(left_row + i / kDepth, inner + i % kDepth);
      panels.right[i % kDepth][i / kDepth] = right.at(right_row + i / kDepth, inner + i % kDepth);
    }
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const double factor = panels.left[d][thread_row + i * kStride];
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) dots[i][j] += factor * panels.right[d][thread_col + j * kStride];
      }
    }
    __syncthreads();
  }
}

struct MostAndSum {
  double most;
  double sum;

  __device__ void add(double score) { add(MostAndSum{score, 1}); }
  __device__ void add(const MostAndSum& other) {
    if (other.most == -INFINITY) return;
    const double together = fmax(most, other.most);
    sum = sum * exp(most - together) + other.sum * exp(other.most - together);
    most = together;
  }
};

// A block for 64 queries.  The 16 threads of a row lie next to each other.
template <class T>
__global__ void __launch_bounds__(kThreads)
    log_sums_kernel(DeviceRows<T> q, DeviceRows<T> k, CheckedAttention checked, double sink, float* lse) {
  __shared__ DotPanels panels;
  const AttentionValues& values = checked.values;
  const int64_t row = int64_t{blockIdx.x} * kSide;
  const int64_t last = min_of(row + kSide, q.count) - 1;
  const int64_t first_key = checked.seen_keys(row).first;
  const int64_t end_key = checked.seen_keys(last).end;
  MostAndSum sums[kPerThread];
  for (MostAndSum& one : sums) one = {-INFINITY, 0};
  for (int64_t key = first_key; key < end_key; key += kSide) {
    Dots dots;
    multiply_rows(q, row, k, key, panels, dots);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const KeyRange seen = checked.seen_keys(row + threadIdx.x / kStride + i * kStride);
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        const int64_t at = key + threadIdx.x % kStride + j * kStride;
        if (at >= seen.first && at < seen.end) sums[i].add(dots[i][j] * checked.scale);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    for (int lanes = kStride / 2; lanes > 0; lanes /= 2) {
      sums[i].add(
          {__shfl_xor_sync(0xffffffffu, sums[i].most, lanes), __shfl_xor_sync(0xffffffffu, sums[i].sum, lanes)});
    }
    const int64_t at = row + threadIdx.x / kStride + i * kStride;
    if (threadIdx.x % kStride != 0 || at >= q.count) continue;
    sums[i].add(sink);
    lse[at] = backward_lse(values.kind, sums[i].most, sums[i].sum);
  }
}

// A warp makes a row's.
template <class T>
__global__ void note_kernel(DeviceRows<T> q, const T* o, const T* dout, PlacedRows rows, const float* lse,
                            BackwardRule rule, QueryNotes* notes) {
  constexpr int kLanes = 32;
  const int64_t warp = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  for (int64_t row = warp; row < rows.count; row += int64_t{gridDim.x} * kThreads / kLanes) {
    QuerySums sums;
    for (int64_t i = row * q.dim + lane; i < (row + 1) * q.dim; i += kLanes) {
      const double gradient = to_double(dout[i]);
      const double part = gradient * to_double(o[i]);
      sums.queries += fabs(to_double(q.first[i]));
      sums.gradients += fabs(gradient);
      sums.delta += part;
      sums.deltas += fabs(part);
    }
    for (double* sum : {&sums.queries, &sums.gradients, &sums.delta, &sums.deltas}) {
      for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) *sum += __shfl_down_sync(0xffffffffu, *sum, lanes);
    }
    if (lane == 0) notes[row] = query_notes(rule, sums, lse[rows.position_of(row)]);
  }
}

template <class T>
struct DevicePairs {
  DeviceRows<T> q, dout, k, v;
  PlacedRows queries, keys;
  const QueryNotes* notes;
  SumsOver over;
  Bounded* weights;
  Bounded* gradients;
};

// A block for 64 queries and 64 keys.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pair_kernel(DevicePairs<T> pairs, CheckedAttention checked, BackwardRule rule) {
  __shared__ DotPanels panels;
  const AttentionValues& values = checked.values;
  const int64_t row = int64_t{blockIdx.y} * kSide;
  const int64_t key = int64_t{blockIdx.x} * kSide;
  Dots scores;
  Dots products;
  multiply_rows(pairs.q, row, pairs.k, key, panels, scores);
  multiply_rows(pairs.dout, row, pairs.v, key, panels, products);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t query = row + threadIdx.x / kStride + i * kStride;
    if (query >= pairs.queries.count) continue;
    const int64_t position = pairs.queries.position_of(query);
    const KeyRange seen = checked.seen_keys(position);
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t of_key = key + threadIdx.x % kStride + j * kStride;
      if (of_key >= pairs.keys.count) continue;
      const int64_t at = pairs.keys.position_of(of_key);
      PairFactors factors;
      if (at >= seen.first && at < seen.end) {
        factors = pair_factors(rule, pairs.notes[query], scores[i][j] * rule.scale, products[i][j],
                               terms_of_sum(checked, pairs.over, position, at));
      }
      const int64_t to = query * pairs.keys.count + of_key;
      if (pairs.weights != nullptr) pairs.weights[to] = factors.weight;
      pairs.gradients[to] = factors.gradient;
    }
  }
}

template <class T>
__global__ void judge_gradients_kernel(const T* out, int64_t count, const SlotSum* sums, BackwardRule rule, double unit,
                                       Tally* total) {
  Tally tally;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    tally.judge(to_double(out[i]), sums[i].ref, backward_tolerance(rule, sums[i].ref, sums[i].error, unit));
  }
  add_to_total(tally, total);
}

unsigned blocks_of_elements(int64_t count) { return blocks_for(ceil_div<int64_t>(count, kThreads)); }
unsigned sides(int64_t count) { return static_cast<unsigned>(ceil_div<int64_t>(count, kSide)); }

template <class T>
DeviceRows<T> device_rows(const Tensor& tensor) {
  return {static_cast<const T*>(tensor.data), tensor.rows, tensor.cols};
}

class CudaAttentionBackwardMath : public AttentionBackwardMath {
 public:
  explicit CudaAttentionBackwardMath(runtime::Device& device) : device_(device), total_(device, sizeof(Tally)) {}

  void fill(const Tensor& rows, AttentionTensor which, const AttentionValues& values, const Shard& shard, int64_t batch,
            int64_t head) override {
    const int64_t count = rows.rows * rows.cols;
    with_device_type(rows.dtype, [&]<class T>() {
      fill_rows_kernel<T><<<blocks_of_elements(count), kThreads, 0, cudaStreamLegacy>>>(
          static_cast<T*>(rows.data), count, which, values, shard, batch, head);
    });
    finish("fill rows of attention");
  }

  void log_sums(const Tensor& q, const Tensor& k, const CheckedAttention& checked, int64_t head, float* lse) override {
    const double sink = backward_sink(checked, head);
    with_device_type(q.dtype, [&]<class T>() {
      log_sums_kernel<T>
          <<<sides(q.rows), kThreads, 0, cudaStreamLegacy>>>(device_rows<T>(q), device_rows<T>(k), checked, sink, lse);
    });
    finish("sum up weights of attention");
  }

  void note(const QueryRows& queries, const Tensor& o, const float* lse, const BackwardRule& rule,
            QueryNotes* notes) override {
    with_device_type(o.dtype, [&]<class T>() {
      note_kernel<T><<<blocks_of_elements(o.rows * 32), kThreads, 0, cudaStreamLegacy>>>(
          device_rows<T>(queries.q), static_cast<const T*>(o.data), static_cast<const T*>(queries.dout.data),
          queries.at, lse, rule, notes);
    });
    finish("note queries of attention");
  }

  void pair(const PairStep& step, const CheckedAttention& checked, const BackwardRule& rule) override {
    const QueryRows& queries = step.queries;
    const KeyRows& keys = step.keys;
    const dim3 blocks(sides(keys.at.count), sides(queries.at.count));
    with_device_type(keys.k.dtype, [&]<class T>() {
      const DevicePairs<T> pairs{device_rows<T>(queries.q),
                                 device_rows<T>(queries.dout),
                                 device_rows<T>(keys.k),
                                 device_rows<T>(keys.v),
                                 queries.at,
                                 keys.at,
                                 queries.notes,
                                 step.over,
                                 step.weights,
                                 step.gradients};
      pair_kernel<T><<<blocks, kThreads, 0, cudaStreamLegacy>>>(pairs, checked, rule);
    });
    finish("pair queries and keys");
  }

  Tally judge(const Tensor& out, const SlotSum* sums, const BackwardRule& rule, double unit) override {
    Tally tally;
    device_.upload(total_.as(), &tally, sizeof(tally));
    const int64_t count = out.rows * out.cols;
    with_device_type(out.dtype, [&]<class T>() {
      judge_gradients_kernel<T><<<blocks_of_elements(count), kThreads, 0, cudaStreamLegacy>>>(
          static_cast<const T*>(out.data), count, sums, rule, unit, total_.as<Tally>());
    });
    finish("judge gradients of attention");
    device_.download(&tally, total_.as(), sizeof(tally));
    return tally;
  }

 private:
  runtime::Device& device_;
  const runtime::Buffer total_;
};

}  // namespace

std::unique_ptr<AttentionBackwardMath> make_cuda_attention_backward_math(runtime::Device& device) {
  return std::make_unique<CudaAttentionBackwardMath>(device);
}

}  // namespace mk::tools
