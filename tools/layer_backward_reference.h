// SPDX-License-Identifier: MIT
// tools/layer_backward_reference.h — what the gradients of a layer of experts must be, in fp64, where the data lies.
//
// Those of tokens, dx and dtopk_weight, are sums over experts, those of an expert, dw13 and dw2, over all of its rows.
// Rows are added for one or the other.  Every call has finished when it returns.
#pragma once

#include <memory>
#include <vector>

#include "layer_reference.h"

namespace mk::tools {

// Some rows of one expert.
struct BackwardRows {
  Tensor x;                    // [rows, hidden]; not read by add_to_tokens
  Tensor dout;                 // [rows, hidden]
  Tensor kept;                 // [rows, 2 · inter]
  Tensor w13;                  // [2 · inter, hidden]; not read by add_to_expert
  Tensor w2;                   // [hidden, inter]
  std::vector<int64_t> pairs;  // of each row: token · topk + slot; not read by add_to_expert
  std::vector<float> weights;  // of each row
};

class LayerBackwardReference {
 public:
  LayerBackwardReference(runtime::Device& device, const LayerSize& size, int topk);
  static double bytes(const LayerSize& size, int topk);

  // Tokens 0 to tokens - 1 have no rows any more.  rule.second_products are those of a sum of dx.
  void clear_tokens(int64_t tokens);
  void add_to_tokens(const BackwardRows& rows, const LayerRule& rule);
  CheckResult check_dx(const Tensor& dx, const LayerRule& rule);
  CheckResult check_dtopk_weight(const Tensor& dtopk_weight, DataKind kind);  // fp32 [tokens, topk]

  // The expert has no rows any more.  rule.second_products are the rows it will have, all together.
  void clear_expert();
  void add_to_expert(const BackwardRows& rows, const LayerRule& rule);
  CheckResult check_dw13(const Tensor& dw13, const LayerRule& rule);
  CheckResult check_dw2(const Tensor& dw2, const LayerRule& rule);

 private:
  void add_rows(const BackwardRows& rows, const LayerRule& rule);

  const std::unique_ptr<BoundedMath> math_;
  const LayerSize size_;
  const int topk_;
  const runtime::Buffer dout_, sums_, gradients_, scaled_, scores_;  // of rows
  const runtime::Buffer results_;                                    // rows of dx, or of dw13, or columns of dw2
  const runtime::Buffer dx_, dtopk_weight_, dw13_;
  const runtime::Buffer dw2_;  // its transpose
};

}  // namespace mk::tools
