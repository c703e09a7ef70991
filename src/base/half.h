// SPDX-License-Identifier: MIT
// base/half.h — bf16 and fp16 on a host that has no such types.
//
// Written by hand because C++20 has no portable 16-bit float and CUDA's headers are not there on a
// machine without a toolkit.  Conversions round to nearest even, as the GPU does.
#pragma once

#include <bit>
#include <cstdint>

namespace mk {

struct Bf16 {
  uint16_t bits = 0;
};

struct Fp16 {
  uint16_t bits = 0;
};

inline float to_float(float x) { return x; }

inline float to_float(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

inline float to_float(Fp16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

template <class T>
T from_float(float x);

template <>
inline float from_float<float>(float x) {
  return x;
}

template <>
inline Bf16 from_float<Bf16>(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <>
inline Fp16 from_float<Fp16>(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds past 65504
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 lines the subnormal's bits up, rounded
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace mk
