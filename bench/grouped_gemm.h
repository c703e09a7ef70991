// SPDX-License-Identifier: MIT
// bench/grouped_gemm.h — products of groups of rows, each with a matrix of its own, the fastest way cuBLAS offers.
//
//   one by one   cublasLt, a product after the other
//   at once      the same on several branches
//   grouped      one cublasGemmGroupedBatchedEx
//
// All ways are timed beforehand and the fastest is kept.  Each is a CUDA graph, which has what cuBLAS does on the host
// behind it: a run is queued while a gate holds it back, so a call that waited for the GPU would never return.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/cublas_calls.h"
#include "bench/cublas_gemm.h"

namespace mk::bench {

// At least one row.
struct GemmGroup {
  int64_t rows = 0;
  GemmOperands of;
};

class GroupedGemm {
 public:
  // C rows [n] = A rows [k] · B, for all groups.  Groups of one lane never run at once with others of it.
  GroupedGemm(runtime::Device& device, DType dtype, BOrder order, int64_t n, int64_t k, int num_lanes);
  GroupedGemm(const GroupedGemm&) = delete;
  ~GroupedGemm();

  // Finds the fastest way, with nothing else on the device; every C is overwritten.  Gives the number to run them by.
  int prepare(const std::vector<GemmGroup>& groups, int lane, cudaStream_t stream);

  void run(int number, cudaStream_t stream) const;

 private:
  struct Prepared {
    std::vector<GemmGroup> groups;
    int lane = 0;
    cudaGraphExec_t graph = nullptr;  // null: there are no groups
    runtime::Buffer pointers;         // of the grouped call: all A, all B, all C
  };

  void release() noexcept;
  GemmShape shape_of(int64_t rows) const { return {rows, n_, k_}; }
  cudaGraphExec_t capture_each(const Prepared& one, int num_branches) const;
  cudaGraphExec_t capture_grouped(Prepared& one) const;
  bool call_grouped(const Prepared& one, cudaStream_t stream) const;
  template <class Queue>
  cudaGraphExec_t captured(Queue&& queue) const;  // null: it cannot be
  template <class Queue>
  static double time_us(Queue&& queue, cudaStream_t stream);

  static constexpr int kBranches = 4;

  runtime::Device& device_;
  cudaDataType type_;
  BOrder order_;
  int64_t n_;
  int64_t k_;
  CublasGemm gemm_;                   // [lane · kBranches + branch]
  cublasHandle_t grouped_ = nullptr;  // null: there is no such library
  std::vector<runtime::Buffer> workspaces_;
  std::vector<cudaStream_t> branches_;
  std::vector<Prepared> prepared_;
};

}  // namespace mk::bench
