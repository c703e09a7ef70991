// SPDX-License-Identifier: MIT
// bench/cublas_gemm.h — matrix products by cuBLAS, the fastest it offers for a shape.
//
// For each shape cublasLt is asked for its best algorithms; they are timed before the first product, and the fastest is
// kept.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/cuda_api.h"
#include "mkernel/types.h"
#include "runtime/device.h"

namespace mk::bench {

// Row-major C [m,n] = A [m,k] · B [k,n], or B [n,k], `batch` times: A and C step by their strides, B stays.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int batch = 1;
  int64_t a_stride = 0;  // elements
  int64_t c_stride = 0;

  auto operator<=>(const GemmShape&) const = default;
};

struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
};

// How parts of a long sum may be added where several blocks make one.
enum class Reductions { kAny, kInFp32 };

class CublasGemm {
 public:
  // bf16 or fp16, fp32 sums.  Products that may run at once need lanes of their own: a lane has a workspace.
  CublasGemm(runtime::Device& device, DType dtype, int num_lanes, BOrder order = BOrder::kKN,
             Reductions reductions = Reductions::kAny);
  CublasGemm(const CublasGemm&) = delete;
  ~CublasGemm();

  // Before the first run of a shape, with nothing else on the device: tries the candidates on `sets` of operands in
  // turn, whose c is overwritten.  Which is the best may hang on how much of them the L2 still has.
  void prepare(const GemmShape& shape, std::span<const GemmOperands> sets, cudaStream_t stream);

  // The same with what is best for another shape, unless cuBLAS refuses it.
  void prepare_like(const GemmShape& shape, const GemmShape& tuned, std::span<const GemmOperands> sets,
                    cudaStream_t stream);

  // Queues one product of a prepared shape.
  void run(const GemmShape& shape, const GemmOperands& operands, int lane, cudaStream_t stream) const;

 private:
  struct Plan {
    cublasLtMatrixLayout_t a = nullptr;
    cublasLtMatrixLayout_t b = nullptr;
    cublasLtMatrixLayout_t c = nullptr;
    cublasLtMatmulAlgo_t algo{};
  };

  static void destroy(const Plan& plan);
  void describe(const GemmShape& shape, Plan& plan) const;
  std::vector<cublasLtMatmulAlgo_t> candidates(const GemmShape& shape, const Plan& plan) const;
  cublasStatus_t launch(const Plan& plan, const GemmOperands& operands, int lane, cudaStream_t stream) const;
  double time_us(const Plan& plan, std::span<const GemmOperands> sets, cudaStream_t stream) const;

  cudaDataType type_;
  BOrder order_;
  Reductions reductions_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  std::vector<runtime::Buffer> workspaces_;
  std::map<GemmShape, Plan> plans_;
};

}  // namespace mk::bench
