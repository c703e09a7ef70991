// SPDX-License-Identifier: MIT
// tests/support/rounding.h — rounding to a narrow float, derived from its format and not from base/half.h.
//
// A format is what its standard says of it: bits of significand and range of exponents.  Values pass
// through double, which holds every value and every midpoint of the three formats exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "mkernel/types.h"

namespace mk::test {

struct FloatFormat {
  int digits;        // of the significand, the hidden one included
  int min_exponent;  // of the smallest normal number
  int max_exponent;  // of the largest number

  double largest() const { return std::ldexp(2.0 - std::ldexp(1.0, 1 - digits), max_exponent); }

  // Distance of neighbours around x.
  double ulp(double x) const {
    const int exponent = x == 0 ? min_exponent : std::max(std::ilogb(x), min_exponent);
    return std::ldexp(1.0, exponent - (digits - 1));
  }
};

constexpr FloatFormat format_of(DType dtype) {
  return dtype == DType::kBf16   ? FloatFormat{8, -126, 127}
         : dtype == DType::kFp16 ? FloatFormat{11, -14, 15}
                                 : FloatFormat{24, -126, 127};
}

// Nearest, ties to even: nearbyint does that on the significand as an integer.
inline double round_to(const FloatFormat& format, double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double ulp = format.ulp(x);
  const double rounded = std::nearbyint(x / ulp) * ulp;
  return std::abs(rounded) <= format.largest() ? rounded : std::copysign(std::numeric_limits<double>::infinity(), x);
}

// The same, of whole numbers of at most this size: looked up.
class RoundedWholes {
 public:
  RoundedWholes(const FloatFormat& format, int64_t largest) : largest_(largest) {
    for (int64_t x = -largest; x <= largest; ++x) rounded_.push_back(round_to(format, static_cast<double>(x)));
  }
  double operator()(double x) const { return rounded_[static_cast<int64_t>(x) + largest_]; }

 private:
  int64_t largest_;
  std::vector<double> rounded_;
};

// What 16 bits of a format mean.
inline double decode16(const FloatFormat& format, uint16_t bits) {
  const int mantissa_bits = format.digits - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int special = (1 << (15 - mantissa_bits)) - 1;
  if (exponent == special) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, format.min_exponent - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), format.min_exponent + exponent - 1 - mantissa_bits);
}

}  // namespace mk::test
