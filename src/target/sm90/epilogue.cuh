// SPDX-License-Identifier: MIT
// target/sm90/epilogue.cuh — what happens to a sum before it is rounded and stored.
//
// A hook is a type that says kFold, how many sums become one result, and has
//
//   operator()(float& x, float& y, int row, int col)                             of kFold 1: two neighbours of a row
//   operator()(float& x, float& y, float up_x, float up_y, int row, int col)     of kFold 2: x and y become the results
//
// row and col are where the first of the results lies in C.  A hook changes its arguments in place: if it returned
// values, the compiler would need more registers than there are.  One that writes to row and col itself also says
// kHasOwnPlaces.  An operator hands a hook to the maths job;
// with_epilogue picks it at run time, before the loop over tiles.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "base/activation_clamp.h"
#include "mkernel/types.h"

namespace mk::sm90 {

template <class Element>
__device__ inline uint32_t pack(float low, float high);

template <>
__device__ inline uint32_t pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

template <>
__device__ inline uint32_t pack<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// A bf16 is the upper half of an fp32: one instruction an element, where the library's function takes three for two.
__device__ inline float2 unpack(__nv_bfloat162 pair) {
  const uint32_t bits = reinterpret_cast<const uint32_t&>(pair);
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
}
__device__ inline float2 unpack(__half2 pair) { return __half22float2(pair); }

// What pack made.
template <class Element>
__device__ inline float2 unpack_pair(uint32_t bits) {
  using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;
  return unpack(reinterpret_cast<const Pair&>(bits));
}

struct Plain {
  static constexpr int kFold = 1;
  __device__ void operator()(float&, float&, int, int) const {}
};

__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__device__ inline float silu(float x) { return x / (1.0f + __expf(-x)); }

// f(x + bias[col]), a null bias being zeros; columns past n are not stored, so their bias is not read.  f is known at
// run time only: with a loop over tiles for each f, sources of kernels take a third longer to compile.
template <class Element>
struct Bias {
  static constexpr int kFold = 1;
  const Element* bias;
  int n;
  Activation activation;

  __device__ void operator()(float& x, float& y, int, int col) const {
    float2 b{0, 0};
    if (bias != nullptr && col < n) b = unpack(*reinterpret_cast<const Pair*>(bias + col));
    x += b.x;
    y += b.y;
    if (activation == Activation::kGelu) {
      x = gelu(x);
      y = gelu(y);
    } else if (activation == Activation::kSilu) {
      x = silu(x);
      y = silu(y);
    }
  }

 private:
  using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;
};

// silu(gate) · up, of columns in turns (GatedColumns in result_boxes.h).  Clamp: ActivationClamp or NoClamp.
template <class Clamp = NoClamp>
struct SwiGlu {
  static constexpr int kFold = 2;
  Clamp clamp;

  __device__ void operator()(float& x, float& y, float up_x, float up_y, int, int) const {
    x = gated(clamp.gate(x), clamp.up(up_x));
    y = gated(clamp.gate(y), clamp.up(up_y));
  }

 private:
  // The exact division has a way out that is a call, for which sums would have to leave their registers.
  __device__ static float gated(float x, float up) { return __fdividef(x, 1.0f + __expf(-x)) * up; }
};

// Calls body with the hook that fits; the usual one comes first, in the code too.
template <class Element, class Body>
__device__ void with_epilogue(const void* bias, int64_t n, Activation activation, Body&& body) {
  if (activation == Activation::kNone && bias == nullptr) {
    body(Plain{});
  } else {
    body(Bias<Element>{static_cast<const Element*>(bias), static_cast<int>(n), activation});
  }
}

}  // namespace mk::sm90
