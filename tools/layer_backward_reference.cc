// SPDX-License-Identifier: MIT
// tools/layer_backward_reference.cc — see layer_backward_reference.h.
#include "layer_backward_reference.h"

#include <algorithm>

namespace mk::tools {
namespace {

int64_t result_rows(const LayerSize& size) { return std::max(size.rows, 2 * size.inter); }

// Row i is added to row i.
std::vector<Target> in_place(int64_t rows) {
  std::vector<Target> targets(rows);
  for (int64_t i = 0; i < rows; ++i) targets[i].row = i;
  return targets;
}

// A result that is rounded once, from an fp32 sum.
LayerRule without_hops(LayerRule rule) {
  rule.hops = {};
  return rule;
}

}  // namespace

LayerBackwardReference::LayerBackwardReference(runtime::Device& device, const LayerSize& size, int topk)
    : math_(make_bounded_math(device)),
      size_(size),
      topk_(topk),
      dout_(device, size.rows * size.hidden * sizeof(Bounded)),
      sums_(device, size.rows * size.inter * sizeof(Bounded)),
      gradients_(device, size.rows * 2 * size.inter * sizeof(Bounded)),
      scaled_(device, size.rows * size.inter * sizeof(Bounded)),
      scores_(device, size.rows * sizeof(Bounded)),
      results_(device, result_rows(size) * size.hidden * sizeof(Bounded)),
      dx_(device, size.tokens * size.hidden * sizeof(SlotSum)),
      dtopk_weight_(device, size.tokens * topk * sizeof(SlotSum)),
      dw13_(device, 2 * size.inter * size.hidden * sizeof(SlotSum)),
      dw2_(device, size.inter * size.hidden * sizeof(SlotSum)) {}

double LayerBackwardReference::bytes(const LayerSize& size, int topk) {
  const auto hidden = static_cast<double>(size.hidden);
  const auto inter = static_cast<double>(size.inter);
  const double bounded =
      static_cast<double>(size.rows) * (hidden + 4 * inter + 1) + static_cast<double>(result_rows(size)) * hidden;
  const double sums = static_cast<double>(size.tokens) * (hidden + topk) + 3 * hidden * inter;
  return bounded * sizeof(Bounded) + sums * sizeof(SlotSum) + 2 * hidden * inter * sizeof(float);
}

void LayerBackwardReference::add_rows(const BackwardRows& rows, const LayerRule& rule) {
  math_->widen(rows.dout, dout_.as<Bounded>());
  math_->multiply({dout_.as<Bounded>(), Stored::kAsIs, rows.dout.rows, rows.w2, Stored::kAsIs}, sums_.as<Bounded>());
  math_->backward({sums_.as<Bounded>(), rows.kept, rows.weights, gradients_.as<Bounded>(), scaled_.as<Bounded>(),
                   scores_.as<Bounded>()},
                  rule);
}

void LayerBackwardReference::clear_tokens(int64_t tokens) {
  math_->clear(dx_.as<SlotSum>(), tokens * size_.hidden);
  math_->clear(dtopk_weight_.as<SlotSum>(), tokens * topk_);
}

void LayerBackwardReference::add_to_tokens(const BackwardRows& rows, const LayerRule& rule) {
  add_rows(rows, rule);
  std::vector<Target> tokens, pairs;
  for (const int64_t pair : rows.pairs) {
    tokens.push_back({pair / topk_});
    pairs.push_back({pair});
  }
  math_->multiply({gradients_.as<Bounded>(), Stored::kAsIs, rows.dout.rows, rows.w13, Stored::kAsIs},
                  results_.as<Bounded>());
  math_->add(results_.as<Bounded>(), size_.hidden, tokens, dx_.as<SlotSum>());
  math_->add(scores_.as<Bounded>(), 1, pairs, dtopk_weight_.as<SlotSum>());
}

CheckResult LayerBackwardReference::check_dx(const Tensor& dx, const LayerRule& rule) {
  return math_->check(dx, Stored::kAsIs, dx_.as<SlotSum>(), rule);
}

CheckResult LayerBackwardReference::check_dtopk_weight(const Tensor& dtopk_weight, DataKind kind) {
  const LayerRule rule{.kind = kind, .rounding = rounding_of(DType::kFp32), .hops = {}};
  return math_->check(dtopk_weight, Stored::kAsIs, dtopk_weight_.as<SlotSum>(), rule);
}

void LayerBackwardReference::clear_expert() {
  math_->clear(dw13_.as<SlotSum>(), 2 * size_.inter * size_.hidden);
  math_->clear(dw2_.as<SlotSum>(), size_.inter * size_.hidden);
}

void LayerBackwardReference::add_to_expert(const BackwardRows& rows, const LayerRule& rule) {
  add_rows(rows, rule);
  // Products over rows: the transpose of what was made of them, times what came.
  const auto add = [&](const runtime::Buffer& made, int64_t cols, const Tensor& came, const runtime::Buffer& sums) {
    math_->multiply({made.as<Bounded>(), Stored::kTransposed, cols, came, Stored::kAsIs}, results_.as<Bounded>());
    math_->add(results_.as<Bounded>(), size_.hidden, in_place(cols), sums.as<SlotSum>());
  };
  add(gradients_, 2 * size_.inter, rows.x, dw13_);
  add(scaled_, size_.inter, rows.dout, dw2_);
}

CheckResult LayerBackwardReference::check_dw13(const Tensor& dw13, const LayerRule& rule) {
  return math_->check(dw13, Stored::kAsIs, dw13_.as<SlotSum>(), without_hops(rule));
}

CheckResult LayerBackwardReference::check_dw2(const Tensor& dw2, const LayerRule& rule) {
  return math_->check(dw2, Stored::kTransposed, dw2_.as<SlotSum>(), without_hops(rule));
}

}  // namespace mk::tools
