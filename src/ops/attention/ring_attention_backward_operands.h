// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_operands.h — what a launch of one rank's backward pass brings.
#pragma once

namespace mk::attention {

struct BackwardOperands {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* o = nullptr;
  const void* dout = nullptr;
  const float* lse = nullptr;
  const float* sink = nullptr;  // or null
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  float* dsink = nullptr;  // or null
  float scale = 1;
};

}  // namespace mk::attention
