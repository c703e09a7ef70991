// SPDX-License-Identifier: MIT
// tools/data_engine_cuda.cu — the data engine on the GPU: the reference is a plain fp64 matrix product.
//
// It shares nothing with the kernels it checks: no TMA, no tensor cores, no signals.
#include "base/math.h"
#include "data_engine.h"
#include "data_kernels.cuh"

namespace mk::tools {
namespace {

template <class T>
__global__ void fill_kernel(T* data, int64_t count, DataSpec spec) {
  const uint64_t key = key_of(spec);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    data[i] = rounded_to<T>(value_at(spec, key, i));
  }
}

// A block for each row.
template <class T>
__global__ void fill_rows_kernel(T* data, int64_t rows, int64_t cols, DataSpec spec, const RowSource* sources) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    spec.rank = sources[row].rank;
    const uint64_t key = key_of(spec);
    for (int64_t col = threadIdx.x; col < cols; col += kThreads) {
      data[row * cols + col] = rounded_to<T>(value_at(spec, key, sources[row].row * cols + col));
    }
  }
}

struct Panels {
  double a[kDepth][kSide + 1];  // the extra column spreads a's transposed stores over the banks
  double b[kDepth][kSide];
};

template <class T>
struct Product {
  const T* a;
  const T* b;
  const T* c;
  int64_t m;
  int64_t n;
  int64_t k;
  int parts;
  int64_t a_part;  // elements from one part of a to the next
  Rounding rounding;
  Hops hops;
};

struct Sums {
  double part[kPerThread][kPerThread];
  double ref[kPerThread][kPerThread] = {};
  double magnitudes[kPerThread][kPerThread] = {};
  double parts[kPerThread][kPerThread] = {};
};

// From the part that begins at a and b.  Zeros beyond the matrices' edges.
template <class T>
__device__ void load_panels(const Product<T>& p, const T* a, const T* b, int64_t row, int64_t col, int64_t inner,
                            Panels& panels) {
  for (int i = threadIdx.x; i < kSide * kDepth; i += kThreads) {
    const int64_t a_row = row + i / kDepth;
    const int64_t a_col = inner + i % kDepth;
    panels.a[i % kDepth][i / kDepth] = a_row < p.m && a_col < p.k ? to_double(a[a_row * p.k + a_col]) : 0.0;
    const int64_t b_row = inner + i / kSide;
    const int64_t b_col = col + i % kSide;
    panels.b[i / kSide][i % kSide] = b_row < p.k && b_col < p.n ? to_double(b[b_row * p.n + b_col]) : 0.0;
  }
}

template <DataKind kKind>
__device__ void add_panels(const Panels& panels, int thread_row, int thread_col, Sums& sums) {
  for (int inner = 0; inner < kDepth; ++inner) {
    double left[kPerThread];
    double right[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      left[i] = panels.a[inner][thread_row + i * kStride];
      right[i] = panels.b[inner][thread_col + i * kStride];
    }
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        sums.part[i][j] += left[i] * right[j];
        if constexpr (kKind == DataKind::kUniform) sums.magnitudes[i][j] += fabs(left[i]) * fabs(right[j]);
      }
    }
  }
}

__device__ void begin_part(Sums& sums) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) sums.part[i][j] = 0;
  }
}

__device__ void end_part(Sums& sums) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      sums.ref[i][j] += sums.part[i][j];
      sums.parts[i][j] += fabs(sums.part[i][j]);
    }
  }
}

template <class T, DataKind kKind>
__device__ void judge_tile(const Product<T>& p, int64_t first_row, int64_t first_col, const Sums& sums, Tally& tally) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t row = first_row + i * kStride;
      const int64_t col = first_col + j * kStride;
      if (row >= p.m || col >= p.n) continue;
      const double out = to_double(p.c[row * p.n + col]);
      const ExactSum sum{sums.ref[i][j], sums.magnitudes[i][j], sums.parts[i][j]};
      if constexpr (kKind == DataKind::kExact) {
        tally.judge(out, to_double(rounded_to<T>(static_cast<float>(sum.ref))), 0);
      } else {
        tally.judge(out, sum.ref, uniform_tolerance(sum, p.k, p.rounding, p.hops));
      }
    }
  }
}

template <class T, DataKind kKind>
__global__ void __launch_bounds__(kThreads) check_kernel(Product<T> p, Tally* total) {
  __shared__ Panels panels;
  const int thread_row = threadIdx.x / kStride;
  const int thread_col = threadIdx.x % kStride;
  const int64_t tiles_across = ceil_div<int64_t>(p.n, kSide);
  const int64_t num_tiles = ceil_div<int64_t>(p.m, kSide) * tiles_across;
  Tally tally;
  for (int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const int64_t row = tile / tiles_across * kSide;
    const int64_t col = tile % tiles_across * kSide;
    Sums sums;
    for (int part = 0; part < p.parts; ++part) {
      begin_part(sums);
      for (int64_t inner = 0; inner < p.k; inner += kDepth) {
        load_panels(p, p.a + part * p.a_part, p.b + part * p.k * p.n, row, col, inner, panels);
        __syncthreads();
        add_panels<kKind>(panels, thread_row, thread_col, sums);
        __syncthreads();
      }
      end_part(sums);
    }
    judge_tile<T, kKind>(p, row + thread_row, col + thread_col, sums, tally);
  }
  add_to_total(tally, total);
}

template <class T>
__global__ void compare_kernel(const T* a, const T* b, int64_t count, unsigned long long* different) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  unsigned long long found = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) found += a[i] != b[i];
  if (found > 0) atomicAdd(different, found);
}

class CudaDataEngine : public DataEngine {
 public:
  explicit CudaDataEngine(runtime::Device& device) : device_(device), total_(device, sizeof(Tally)) {}

  void fill(const Tensor& tensor, const DataSpec& spec) override {
    const int64_t count = tensor.rows * tensor.cols;
    with_device_type(tensor.dtype, [&]<class T>() {
      fill_kernel<T><<<blocks_for(ceil_div<int64_t>(count, kThreads)), kThreads, 0, cudaStreamLegacy>>>(
          static_cast<T*>(tensor.data), count, spec);
    });
    finish("fill a tensor");
  }

  void fill_rows(const Tensor& tensor, const DataSpec& spec, const std::vector<RowSource>& sources) override {
    const runtime::Buffer from(device_, sources.size() * sizeof(RowSource));
    device_.upload(from.as(), sources.data(), from.bytes());
    with_device_type(tensor.dtype, [&]<class T>() {
      fill_rows_kernel<T><<<blocks_for(tensor.rows), kThreads, 0, cudaStreamLegacy>>>(
          static_cast<T*>(tensor.data), tensor.rows, tensor.cols, spec, from.as<RowSource>());
    });
    finish("fill rows");
  }

  void poison(const Tensor& tensor) override {
    const size_t bytes = tensor.rows * tensor.cols * size_of(tensor.dtype);
    check_cuda(cudaMemsetAsync(tensor.data, 0xff, bytes, cudaStreamLegacy), "poison a tensor");
    finish("poison a tensor");
  }

  CheckResult check_sum(const SumCheck& check, DataKind kind) override {
    const Tensor& c = check.c;
    const int64_t k = check.a.cols;
    Tally tally;
    device_.upload(total_.as(), &tally, sizeof(tally));
    const unsigned blocks = blocks_for(ceil_div<int64_t>(c.rows, kSide) * ceil_div<int64_t>(c.cols, kSide));
    with_device_type(c.dtype, [&]<class T>() {
      const Product<T> product{static_cast<const T*>(check.a.data) + check.first_row * k,
                               static_cast<const T*>(check.b.data),
                               static_cast<const T*>(c.data),
                               c.rows,
                               c.cols,
                               k,
                               check.parts,
                               check.a.rows / check.parts * k,
                               rounding_of(c.dtype),
                               check.hops};
      const auto kernel =
          kind == DataKind::kExact ? check_kernel<T, DataKind::kExact> : check_kernel<T, DataKind::kUniform>;
      kernel<<<blocks, kThreads, 0, cudaStreamLegacy>>>(product, total_.as<Tally>());
    });
    finish("check a result");
    device_.download(&tally, total_.as(), sizeof(tally));
    return CheckResult::of(tally);
  }

  int64_t count_different(const Tensor& a, const Tensor& b) override {
    unsigned long long different = 0;
    device_.upload(total_.as(), &different, sizeof(different));
    const int64_t count = a.rows * a.cols;
    const unsigned blocks = blocks_for(ceil_div<int64_t>(count, kThreads));
    const auto compare = [&]<class Bits>() {
      compare_kernel<Bits><<<blocks, kThreads, 0, cudaStreamLegacy>>>(
          static_cast<const Bits*>(a.data), static_cast<const Bits*>(b.data), count, total_.as<unsigned long long>());
    };
    if (size_of(a.dtype) == 2) {
      compare.template operator()<uint16_t>();
    } else {
      compare.template operator()<uint32_t>();
    }
    finish("compare two tensors");
    device_.download(&different, total_.as(), sizeof(different));
    return static_cast<int64_t>(different);
  }

 private:
  runtime::Device& device_;
  runtime::Buffer total_;
};

}  // namespace

std::unique_ptr<DataEngine> make_cuda_data_engine(runtime::Device& device) {
  return std::make_unique<CudaDataEngine>(device);
}

}  // namespace mk::tools
