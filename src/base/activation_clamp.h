// SPDX-License-Identifier: MIT
// base/activation_clamp.h — bounds of gate and up before SwiGLU, and where their gradients vanish.
//
//   gate' = min(gate, most)      up' = min(max(up, -most), most)      a NaN stays one
//
// Slopes are 1 up to the bounds, these included, and 0 beyond.
#pragma once

#include <limits>

#include "base/macros.h"

namespace mk {

struct ActivationClamp {
  float most = std::numeric_limits<float>::infinity();

  MK_HD constexpr bool is_none() const { return !(most < std::numeric_limits<float>::infinity()); }

  MK_HD constexpr bool cuts_gate(float gate) const { return gate > most; }
  MK_HD constexpr bool cuts_up(float up) const { return up > most || up < -most; }
  MK_HD constexpr float gate(float gate) const { return cuts_gate(gate) ? most : gate; }
  MK_HD constexpr float up(float up) const { return up > most ? most : up < -most ? -most : up; }
};

// The same without bounds: no code is compiled for it.
struct NoClamp {
  MK_HD static constexpr bool cuts_gate(float) { return false; }
  MK_HD static constexpr bool cuts_up(float) { return false; }
  MK_HD static constexpr float gate(float gate) { return gate; }
  MK_HD static constexpr float up(float up) { return up; }
};

// Calls body with either.
MK_PROTOCOL
template <class Body>
MK_HD constexpr void with_clamp(const ActivationClamp& clamp, const Body& body) {
  if (clamp.is_none()) {
    body(NoClamp{});
  } else {
    body(clamp);
  }
}

}  // namespace mk
