// SPDX-License-Identifier: MIT
// bench/operands.h — inputs and outputs of all ranks, in several sets that take turns.
//
//             a            b         c
//   ag_gemm   [M/W, K]     [K, N]    [M, N]
//   gemm_rs   [M, K]       [K, N]    [M/W, N]
//   gemm_ar   [M, K]       [K, N]    [M, N]
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/bench_case.h"
#include "runtime/device.h"
#include "tools/data_engine.h"

namespace mk::bench {

// A tensor that owns its memory.
struct OwnedTensor {
  OwnedTensor(runtime::Device& device, DType dtype, int64_t rows, int64_t cols)
      : memory(device, rows * cols * size_of(dtype)), view{memory.as(), dtype, rows, cols} {}

  runtime::Buffer memory;
  Tensor view;
};

struct RankTensors {
  Tensor a;
  Tensor b;
  Tensor c;
};

class Operands {
 public:
  Operands(const BenchCase& bench_case, runtime::Device& device, int num_sets);

  int num_sets() const { return static_cast<int>(sets_.size()); }
  std::span<const RankTensors> set(int number) const { return sets_[number]; }

  // Outputs become NaN.
  void poison(int set);

  // The rank's a and b of a set once more, as they were before anybody ran: for checks.
  void remake_a(int set, int rank, const Tensor& into);
  void remake_b(int set, int rank, const Tensor& into);

  tools::DataKind kind() const;
  tools::DataEngine& engine() { return *engine_; }

 private:
  tools::DataSpec spec_of(int set, uint64_t tensor, int rank) const;

  BenchCase case_;
  std::unique_ptr<tools::DataEngine> engine_;
  std::vector<OwnedTensor> tensors_;
  std::vector<std::vector<RankTensors>> sets_;
};

}  // namespace mk::bench
