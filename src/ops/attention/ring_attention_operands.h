// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_operands.h — what a launch of one rank brings besides its inputs' places.
#pragma once

namespace mk::attention {

struct Operands {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;         // or null
  const float* sink = nullptr;  // or null
  float scale = 1;
};

}  // namespace mk::attention
