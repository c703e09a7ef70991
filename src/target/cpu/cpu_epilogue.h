// SPDX-License-Identifier: MIT
// target/cpu/cpu_epilogue.h — what happens to a sum before it is rounded and stored.
//
// A hook is a type whose operator() takes a sum and its column in the tile and returns what is rounded.  As on
// a GPU, bias and activation are fp32.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/half.h"
#include "mkernel/types.h"

namespace mk::cpu {

struct Plain {
  float operator()(float sum, int64_t) const { return sum; }
};

inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kGelu: return 0.5f * x * (1.0f + std::erf(x * 0.70710678f));
    case Activation::kSilu: return x / (1.0f + std::exp(-x));
    case Activation::kNone: break;
  }
  return x;
}

// f(x + bias[col]), a null bias being zeros.
template <class T>
struct Bias {
  const T* bias;  // of the tile's first column
  Activation activation;

  float operator()(float sum, int64_t col) const {
    return activate(activation, bias == nullptr ? sum : sum + to_float(bias[col]));
  }
};

}  // namespace mk::cpu
