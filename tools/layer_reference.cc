// SPDX-License-Identifier: MIT
// tools/layer_reference.cc — see layer_reference.h.
#include "layer_reference.h"

namespace mk::tools {

LayerReference::LayerReference(runtime::Device& device, const LayerSize& size)
    : math_(make_bounded_math(device)),
      hidden_(size.hidden),
      x_(device, size.rows * size.hidden * sizeof(Bounded)),
      gate_(device, size.rows * size.inter * sizeof(Bounded)),
      up_(device, size.rows * size.inter * sizeof(Bounded)),
      activations_(device, size.rows * size.inter * sizeof(Bounded)),
      results_(device, size.rows * size.hidden * sizeof(Bounded)),
      sums_(device, size.tokens * size.hidden * sizeof(SlotSum)) {}

void LayerReference::clear(int64_t tokens) { math_->clear(sums_.as<SlotSum>(), tokens * hidden_); }

void LayerReference::add(const ExpertRows& rows, const LayerRule& rule) {
  const int64_t count = rows.x.rows;
  const auto multiply = [&](const runtime::Buffer& left, const Tensor& weights, const runtime::Buffer& out) {
    math_->multiply({left.as<Bounded>(), Stored::kAsIs, count, weights, Stored::kTransposed}, out.as<Bounded>());
  };
  math_->widen(rows.x, x_.as<Bounded>());
  multiply(x_, rows.gate, gate_);
  multiply(x_, rows.up, up_);
  math_->activate(gate_.as<Bounded>(), up_.as<Bounded>(), activations_.as<Bounded>(), count * rows.gate.rows, rule);
  multiply(activations_, rows.w2, results_);
  math_->add(results_.as<Bounded>(), hidden_, rows.targets, sums_.as<SlotSum>());
}

CheckResult LayerReference::check(const Tensor& out, const LayerRule& rule) {
  return math_->check(out, Stored::kAsIs, sums_.as<SlotSum>(), rule);
}

}  // namespace mk::tools
