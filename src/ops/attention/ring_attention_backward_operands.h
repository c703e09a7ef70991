// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_operands.h — what a launch of one rank's backward pass brings.
#pragma once

#include "ops/attention/head_strides.h"

namespace mk::attention {

struct BackwardOperands {
  HeadView q;
  HeadView k;
  HeadView v;
  HeadView o;
  HeadView dout;
  const float* lse = nullptr;
  const float* sink = nullptr;  // or null
  HeadView dq;
  HeadView dk;
  HeadView dv;
  float* dsink = nullptr;  // or null
  float scale = 1;
};

}  // namespace mk::attention
