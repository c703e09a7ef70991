// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_operands.h — what a launch of one rank brings besides its inputs' places.
#pragma once

#include "ops/attention/head_strides.h"

namespace mk::attention {

struct Operands {
  HeadView q;
  HeadView k;
  HeadView v;
  HeadView o;
  float* lse = nullptr;         // or null
  const float* sink = nullptr;  // or null
  float scale = 1;
};

}  // namespace mk::attention
