// SPDX-License-Identifier: MIT
// tools/layer_checker.h — checks every element that a launch of the MoE layer left on a rank.
//
// Inputs are made again, those of other ranks too, and compared with what they must give: some tokens of a rank at a
// time, and of those the rows of one expert after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "data_engine.h"
#include "layer_data.h"
#include "layer_reference.h"
#include "matrix_memory.h"
#include "moe_pairs.h"

namespace mk::tools {

struct CheckedLayer {
  DType dtype = DType::kBf16;
  int64_t hidden = 0;
  int64_t inter = 0;
  int64_t tokens = 0;  // of a rank, at most
  int experts = 0;
  int topk = 0;
  int nodes = 1;
  float clamp = 0;  // 0: none
};

class LayerChecker {
 public:
  LayerChecker(const CheckedLayer& layer, runtime::Device& device, DataEngine& engine);
  static double bytes(const CheckedLayer& layer);

  // More rows may follow those of the rank's tokens in out.  `gates`: see LayerRule.
  CheckResult check(const LayerData& data, const MoePairs& pairs, int rank, const Tensor& out,
                    const Rounding& gates = {});

 private:
  static LayerSize size_of_check(const CheckedLayer& layer);
  // Expert by expert: the pairs of `count` tokens.
  void add_tokens(const LayerData& data, const LayerRule& rule, const std::vector<int64_t>& ids,
                  const std::vector<float>& weights, int rank, int64_t first, int64_t count);

  const CheckedLayer layer_;
  DataEngine& engine_;
  const LayerSize size_;
  LayerReference reference_;
  const Matrix x_;
  const Matrix gate_;
  const Matrix up_;
  const Matrix w2_;
};

}  // namespace mk::tools
