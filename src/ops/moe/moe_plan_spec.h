// SPDX-License-Identifier: MIT
// ops/moe/moe_plan_spec.h — what a plan of a mixture of experts asks of the World, and its inputs.
#pragma once

#include "mkernel/moe.h"
#include "ops/moe/moe_layout.h"
#include "ops/plan_spec.h"

namespace mk::moe {

// L: a Layout.
template <class L>
runtime::PlanSpec spec_of(const L& layout) {
  runtime::PlanSpec spec = plan_spec(layout);
  spec.names.is_inner = [layout](uint32_t signal) { return layout.is_inner(signal); };
  spec.names.refusal = [layout](const FaultRecord& record) { return refusal(layout, record); };
  return spec;
}

inline void set_inputs(RankView& view, const Tensor& tokens, const MoeIds& ids, const float* weights) {
  view.windows.inputs[kTokensInput] = static_cast<const std::byte*>(tokens.data);
  view.windows.inputs[kIdsInput] = static_cast<const std::byte*>(ids.data);
  view.windows.inputs[kWeightsInput] = reinterpret_cast<const std::byte*>(weights);
}

}  // namespace mk::moe
