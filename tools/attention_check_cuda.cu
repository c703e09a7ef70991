// SPDX-License-Identifier: MIT
// tools/attention_check_cuda.cu — attention by positions in fp64 on the GPU: all scores of some rows, their weights,
// and sums of values, a plain kernel each.
//
// It shares nothing with the kernels it checks: no TMA, no tensor cores, no signals, no blocks of keys.
#include <algorithm>

#include "attention_check.h"
#include "base/math.h"
#include "data_kernels.cuh"

namespace mk::tools {
namespace {

constexpr int64_t kScoreBytes = int64_t{1} << 31;  // of the scores that are there at once

template <class T>
__global__ void fill_attention_kernel(T* to, HeadTensor tensor, AttentionTensor which, AttentionValues values,
                                      Shard shard, int64_t first_batch) {
  const int64_t count = tensor.batch * tensor.rows * tensor.heads * tensor.dim;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t token = i / (tensor.heads * tensor.dim);
    to[i] = rounded_to<T>(attention_value(values, which, first_batch + token / tensor.rows,
                                          shard.position_of(token % tensor.rows), i / tensor.dim % tensor.heads,
                                          i % tensor.dim));
  }
}

// Some rows of one batch of a rank, and what they are made of.
template <class T>
struct Rows {
  CheckedAttention checked;
  AttentionRule rule;
  const T* queries;  // [all rows of the rank, heads, dim]
  const T* keys;     // [seq, kv heads, dim]
  const T* values;   // likewise
  const T* o;        // as queries
  const float* lse;  // [heads, all rows of the rank]
  int64_t all_rows;
  int64_t first;  // row
  int64_t count;
  double* scores;     // [heads, count, seq], then weights
  SoftmaxSums* sums;  // [heads, count]

  // Of rows from `row` on; positions grow with rows.
  __device__ KeyRange seen(int64_t row, int64_t rows) const {
    const auto of = [&](int64_t one) { return checked.seen_keys(checked.shard.position_of(one)); };
    return {of(first + row).first, of(first + min_of(row + rows, count) - 1).end};
  }
  __device__ double* scores_of(int64_t head, int64_t row) const {
    return scores + (head * count + row) * checked.values.seq;
  }
};

struct ScorePanels {
  double queries[kDepth][kSide + 1];  // the extra column spreads transposed stores over the banks
  double keys[kDepth][kSide + 1];
};

// A block for 64 rows, 64 keys and a head.  Keys that none of the rows sees are left out.
template <class T>
__global__ void __launch_bounds__(kThreads) scores_kernel(Rows<T> rows) {
  __shared__ ScorePanels panels;
  const AttentionValues& values = rows.checked.values;
  const int64_t head = blockIdx.z;
  const int64_t row = int64_t{blockIdx.y} * kSide;
  const int64_t key = int64_t{blockIdx.x} * kSide;
  const KeyRange seen = rows.seen(row, kSide);
  if (key >= seen.end || key + kSide <= seen.first) return;
  const int thread_row = threadIdx.x / kStride;
  const int thread_key = threadIdx.x % kStride;
  double sums[kPerThread][kPerThread] = {};
  for (int64_t inner = 0; inner < values.dim; inner += kDepth) {
    for (int i = threadIdx.x; i < kSide * kDepth; i += kThreads) {
      const int64_t d = inner + i % kDepth;
      const int64_t q = row + i / kDepth;
      const int64_t k = key + i / kDepth;
      panels.queries[i % kDepth][i / kDepth] =
          q < rows.count && d < values.dim
              ? to_double(rows.queries[((rows.first + q) * values.heads + head) * values.dim + d])
              : 0.0;
      panels.keys[i % kDepth][i / kDepth] =
          k < values.seq && d < values.dim
              ? to_double(rows.keys[(k * values.kv_heads + values.kv_head(head)) * values.dim + d])
              : 0.0;
    }
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const double q = panels.queries[d][thread_row + i * kStride];
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) sums[i][j] += q * panels.keys[d][thread_key + j * kStride];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t q = row + thread_row + i * kStride;
      const int64_t k = key + thread_key + j * kStride;
      if (q < rows.count && k < values.seq) rows.scores_of(head, q)[k] = sums[i][j] * rows.checked.scale;
    }
  }
}

// The same result in all threads of a block.
template <class Join>
__device__ double over_block(double own, const Join& join) {
  __shared__ double of_warps[kThreads / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) own = join(own, __shfl_xor_sync(0xffffffffu, own, lanes));
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
  __syncthreads();
  double all = of_warps[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) all = join(all, of_warps[warp]);
  return all;
}
__device__ double sum_over_block(double own) {
  return over_block(own, [](double a, double b) { return a + b; });
}

// A block for a row and a head: scores become weights, zero for keys that only other rows of its 64 see.
template <class T>
__global__ void weights_kernel(Rows<T> rows, Tally* total) {
  const AttentionValues& values = rows.checked.values;
  const int64_t row = blockIdx.x;
  const int64_t head = blockIdx.y;
  double* const scores = rows.scores_of(head, row);
  const KeyRange seen = rows.seen(row, 1);
  const KeyRange around = rows.seen(row / kSide * kSide, kSide);
  const bool has_sink = rows.checked.sink == SinkUse::kGiven;
  const double sink = has_sink ? sink_value(values, head) : -INFINITY;
  double most = sink;
  for (int64_t k = seen.first + threadIdx.x; k < seen.end; k += kThreads) most = fmax(most, scores[k]);
  const double maximum = over_block(most, [](double a, double b) { return fmax(a, b); });
  double sum = 0;
  double counted = 0;
  for (int64_t k = around.first + threadIdx.x; k < around.end; k += kThreads) {
    const bool is_seen = k >= seen.first && k < seen.end;
    const double below = is_seen ? scores[k] - maximum : -INFINITY;
    scores[k] = is_seen ? exp(below) : 0;
    sum += scores[k];
    counted += counts(below) ? 1 : 0;
  }
  double elements = 0;
  for (int64_t d = threadIdx.x; d < values.dim; d += kThreads) {
    elements += fabs(to_double(rows.queries[((rows.first + row) * values.heads + head) * values.dim + d]));
  }
  SoftmaxSums sums{maximum, sum_over_block(sum), sum_over_block(counted), static_cast<double>(seen.end - seen.first),
                   score_magnitude(rows.rule, sum_over_block(elements))};
  if (has_sink) {
    sums.sum += exp(sink - maximum);
    sums.counted += counts(sink - maximum) ? 1 : 0;
    if (counts(sink - maximum)) sums.magnitudes = fmax(sums.magnitudes, fabs(sink));
  }
  Tally tally;
  if (threadIdx.x == 0) {
    rows.sums[head * rows.count + row] = sums;
    tally.judge(rows.lse[head * rows.all_rows + rows.first + row], lse_of(sums), lse_tolerance(rows.rule, sums));
  }
  add_to_total(tally, total);
}

struct ValuePanels {
  double weights[kDepth][kSide + 1];
  double values[kDepth][kSide];
};

// A block for 64 rows, 64 elements and a head.
template <class T>
__global__ void __launch_bounds__(kThreads) values_kernel(Rows<T> rows, Tally* total) {
  __shared__ ValuePanels panels;
  const AttentionValues& values = rows.checked.values;
  const int64_t head = blockIdx.z;
  const int64_t row = int64_t{blockIdx.y} * kSide;
  const int64_t element = int64_t{blockIdx.x} * kSide;
  const KeyRange seen = rows.seen(row, kSide);
  const int thread_row = threadIdx.x / kStride;
  const int thread_col = threadIdx.x % kStride;
  double results[kPerThread][kPerThread] = {};
  double magnitudes[kPerThread][kPerThread] = {};
  for (int64_t key = seen.first; key < seen.end; key += kDepth) {
    for (int i = threadIdx.x; i < kSide * kDepth; i += kThreads) {
      const int64_t q = row + i / kDepth;
      const int64_t of_q = key + i % kDepth;
      panels.weights[i % kDepth][i / kDepth] = q < rows.count && of_q < seen.end ? rows.scores_of(head, q)[of_q] : 0.0;
      const int64_t k = key + i / kSide;
      const int64_t d = element + i % kSide;
      panels.values[i / kSide][i % kSide] =
          k < seen.end && d < values.dim
              ? to_double(rows.values[(k * values.kv_heads + values.kv_head(head)) * values.dim + d])
              : 0.0;
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const double weight = panels.weights[k][thread_row + i * kStride];
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
          const double value = panels.values[k][thread_col + j * kStride];
          results[i][j] += weight * value;
          magnitudes[i][j] += weight * fabs(value);
        }
      }
    }
    __syncthreads();
  }
  Tally tally;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t q = row + thread_row + i * kStride;
      const int64_t d = element + thread_col + j * kStride;
      if (q >= rows.count || d >= values.dim) continue;
      const SoftmaxSums& sums = rows.sums[head * rows.count + q];
      const double ref = results[i][j] / sums.sum;
      tally.judge(to_double(rows.o[((rows.first + q) * values.heads + head) * values.dim + d]), ref,
                  o_tolerance(rows.rule, sums, ref, magnitudes[i][j] / sums.sum));
    }
  }
  add_to_total(tally, total);
}

unsigned sides(int64_t count) { return static_cast<unsigned>(ceil_div<int64_t>(count, kSide)); }

class CudaAttentionChecker : public AttentionChecker {
 public:
  explicit CudaAttentionChecker(runtime::Device& device) : device_(device), total_(device, sizeof(AttentionTally)) {}

  void fill(const HeadTensor& tensor, AttentionTensor which, const AttentionValues& values, const Shard& shard,
            int64_t first_batch) override {
    const int64_t count = tensor.batch * tensor.rows * tensor.heads * tensor.dim;
    with_device_type(tensor.dtype, [&]<class T>() {
      fill_attention_kernel<T><<<blocks_for(ceil_div<int64_t>(count, kThreads)), kThreads, 0, cudaStreamLegacy>>>(
          static_cast<T*>(tensor.data), tensor, which, values, shard, first_batch);
    });
    finish("fill an input of attention");
  }

  AttentionTally check(const CheckedAttention& checked, const HeadTensor& o, const float* lse) override {
    AttentionTally tally;
    device_.upload(total_.as(), &tally, sizeof(tally));
    with_device_type(o.dtype, [&]<class T>() {
      for (int64_t batch = 0; batch < o.batch; ++batch) check_batch<T>(checked, o, lse, batch);
    });
    device_.download(&tally, total_.as(), sizeof(tally));
    return tally;
  }

  double bytes(const AttentionSize& size, int64_t rows, DType dtype) const override {
    const double elements = static_cast<double>(2 * size.seq * size.kv_heads + rows * size.heads);
    const double scores = static_cast<double>(rows_at_once(size.seq, size.heads, rows) * size.heads) *
                          (static_cast<double>(size.seq) * sizeof(double) + sizeof(SoftmaxSums));
    return elements * static_cast<double>(size.dim * size_of(dtype)) + scores;
  }

 private:
  static int64_t rows_at_once(int64_t seq, int64_t heads, int64_t rows) {
    const int64_t fit = kScoreBytes / (heads * seq * static_cast<int64_t>(sizeof(double)));
    return std::clamp<int64_t>(fit / kSide * kSide, std::min<int64_t>(kSide, rows), rows);
  }

  runtime::Buffer filled(const CheckedAttention& checked, AttentionTensor which, const Shard& shard, int64_t heads,
                         int64_t batch, DType dtype) {
    runtime::Buffer buffer(device_, shard.rows * heads * checked.values.dim * size_of(dtype));
    fill({buffer.as(), dtype, 1, shard.rows, heads, checked.values.dim}, which, checked.values, shard, batch);
    return buffer;
  }

  template <class T>
  void check_batch(const CheckedAttention& checked, const HeadTensor& o, const float* lse, int64_t batch) {
    const AttentionValues& values = checked.values;
    const Shard all{.rows = values.seq};
    const runtime::Buffer queries =
        filled(checked, AttentionTensor::kQueries, checked.shard, values.heads, batch, o.dtype);
    const runtime::Buffer k = filled(checked, AttentionTensor::kKeys, all, values.kv_heads, batch, o.dtype);
    const runtime::Buffer v = filled(checked, AttentionTensor::kValues, all, values.kv_heads, batch, o.dtype);
    const int64_t at_once = rows_at_once(values.seq, values.heads, o.rows);
    const runtime::Buffer scores(device_, values.heads * at_once * values.seq * sizeof(double));
    const runtime::Buffer sums(device_, values.heads * at_once * sizeof(SoftmaxSums));
    Rows<T> rows{checked,
                 attention_rule(values, o.dtype, checked.scale),
                 queries.as<T>(),
                 k.as<T>(),
                 v.as<T>(),
                 static_cast<const T*>(o.data) + batch * o.rows * o.heads * o.dim,
                 lse + batch * o.heads * o.rows,
                 o.rows};
    rows.scores = scores.as<double>();
    rows.sums = sums.as<SoftmaxSums>();
    for (rows.first = 0; rows.first < o.rows; rows.first += at_once) {
      rows.count = std::min(at_once, o.rows - rows.first);
      check_rows(rows);
    }
    finish("check attention");
  }

  template <class T>
  void check_rows(const Rows<T>& rows) {
    const AttentionValues& values = rows.checked.values;
    const auto heads = static_cast<unsigned>(values.heads);
    const dim3 score_blocks(sides(values.seq), sides(rows.count), heads);
    const dim3 row_blocks(static_cast<unsigned>(rows.count), heads);
    const dim3 value_blocks(sides(values.dim), sides(rows.count), heads);
    auto* const total = total_.as<AttentionTally>();
    scores_kernel<T><<<score_blocks, kThreads, 0, cudaStreamLegacy>>>(rows);
    weights_kernel<T><<<row_blocks, kThreads, 0, cudaStreamLegacy>>>(rows, &total->lse);
    values_kernel<T><<<value_blocks, kThreads, 0, cudaStreamLegacy>>>(rows, &total->o);
  }

  runtime::Device& device_;
  const runtime::Buffer total_;
};

}  // namespace

std::unique_ptr<AttentionChecker> make_cuda_attention_checker(runtime::Device& device) {
  return std::make_unique<CudaAttentionChecker>(device);
}

}  // namespace mk::tools
