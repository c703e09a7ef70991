// SPDX-License-Identifier: MIT
// ops/plan_spec.h — what a World keeps for a layout.
//
// window_bytes(layout) and signal_name(layout, signal) come from the layout's namespace.
#pragma once

#include <memory>

#include "runtime/plan.h"

namespace mk {

template <class Layout>
runtime::PlanSpec plan_spec(const Layout& layout) {
  static_assert(Layout::kRoles.size() <= kMostRoles);
  runtime::PlanSpec spec;
  spec.window_bytes = window_bytes(layout);
  spec.num_signals = layout.num_signals();
  spec.workers = layout.roles.total();
  spec.layout = std::make_shared<const Layout>(layout);
  spec.names = {Layout::kRoles, [layout](uint32_t signal) { return signal_name(layout, signal); }};
  return spec;
}

}  // namespace mk
