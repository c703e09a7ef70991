// SPDX-License-Identifier: MIT
// bench/moe_sets.h — inputs and outputs of all ranks of a mixture of experts, in sets that take turns; and their
// checks.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/moe_case.h"
#include "bench/operands.h"
#include "tools/layer_checker.h"

namespace mk::bench {

struct MoeRankTensors {
  Tensor x;                        // [tokens, hidden]
  const int64_t* ids = nullptr;    // [tokens, topk]
  const float* weights = nullptr;  // [tokens, topk]
  Tensor w;                        // of dispatch+GEMM: [local experts · hidden, n]
  Tensor w13;                      // of the layer: [local experts · 2 · inter, hidden]
  Tensor w2;                       // of the layer: [local experts · hidden, inter]
  Tensor y;                        // [max_rows, n], or of the layer [tokens, hidden]
};

class MoeSets {
 public:
  MoeSets(const BenchCase& bench_case, runtime::Device& device);

  std::span<const MoeRankTensors> set(int number) const { return sets_[number]; }
  const tools::MoePairs& pairs(int set) const { return pairs_[set]; }
  // [rank][pair]
  const std::vector<std::vector<float>>& weights(int set) const { return weights_[set]; }
  int64_t max_rows() const { return max_rows_; }  // that a rank gets, in any set
  tools::DataEngine& engine() { return *engine_; }

  // Outputs become NaN.
  void poison(int set);

  // Judge the outputs of a set: rows of y, which lie by expert and in the order that `rows_of` gives, or those of a
  // layer, whose gates were rounded on the way or not.
  using RowsOf = std::function<const std::vector<tools::MoePair>&(int rank, int local_expert)>;
  tools::CheckResult check_rows(int set, const RowsOf& rows_of);
  tools::CheckResult check_layer(int set, const tools::Rounding& gates);

 private:
  int local_experts() const { return case_.moe.experts / case_.world.size(); }
  tools::DataSpec spec_of(int set, uint64_t tensor, int rank) const;
  tools::LayerData layer_data(int set) const;
  void fill_weights(int set, int rank, const MoeRankTensors& own);

  BenchCase case_;
  runtime::Device& device_;
  std::unique_ptr<tools::DataEngine> engine_;
  std::vector<tools::MoePairs> pairs_;
  std::vector<std::vector<std::vector<float>>> weights_;  // [set]
  int64_t max_rows_ = 1;
  std::vector<OwnedTensor> tensors_;
  std::vector<runtime::Buffer> buffers_;
  std::vector<std::vector<MoeRankTensors>> sets_;
};

}  // namespace mk::bench
