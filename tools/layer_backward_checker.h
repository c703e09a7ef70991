// SPDX-License-Identifier: MIT
// tools/layer_backward_checker.h — checks every gradient that a launch of the backward pass left on a rank.
//
// Inputs are made again from their seeds, those of other ranks too, and compared with what they must give: some tokens
// of a rank at a time, or an expert, and of those some rows after the others.
#pragma once

#include <functional>
#include <span>

#include "data_engine.h"
#include "layer_backward_data.h"
#include "layer_backward_reference.h"
#include "matrix_memory.h"
#include "moe_pairs.h"
#include "report.h"

namespace mk::tools {

// What a rank gets; more rows may follow those that are checked.
struct BackwardOutputs {
  Matrix dx;            // [tokens, hidden]
  Matrix dtopk_weight;  // [tokens, topk], fp32
  Matrix dw13;          // [local experts · 2 · inter, hidden]
  Matrix dw2;           // [local experts · hidden, inter]
};

BackwardData backward_data_of(const Row& row, const MoePairs& pairs, int launch);

// Gates and ups of as many pairs as kept has rows.
void fill_kept(DataEngine& engine, const Tensor& kept, const DataSpec& spec, std::span<const MoePair> pairs,
               int world_size);

// The three weights of an expert: w13 is [2 · inter, hidden].
void fill_expert(DataEngine& engine, const Tensor& w13, const Tensor& w2, const LayerData& data, int expert);

class BackwardChecker {
 public:
  BackwardChecker(const Row& row, const WorldShape& world, runtime::Device& device, DataEngine& engine);
  static double bytes(const Row& row);

  CheckResult check(int launch, const MoePairs& pairs, int rank, const BackwardOutputs& outputs);

 private:
  CheckResult check_tokens(const BackwardData& data, const MoePairs& pairs, int rank, const BackwardOutputs& outputs);
  CheckResult check_experts(const BackwardData& data, const MoePairs& pairs, int rank, const BackwardOutputs& outputs);
  // Some of the pairs after the others; tokens count from `first_token`.
  void for_some(const BackwardData& data, std::span<const MoePair> pairs, int64_t first_token,
                const std::function<void(const BackwardRows&)>& use);
  LayerRule rule_of(const BackwardData& data, int64_t second_products) const;

  const Row& row_;
  const WorldShape world_;
  DataEngine& engine_;
  const LayerSize size_;
  LayerBackwardReference reference_;
  const Matrix x_, dout_, kept_;
  const Matrix w13_, w2_;
};

}  // namespace mk::tools
