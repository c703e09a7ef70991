// SPDX-License-Identifier: MIT
// base/math.h — the integer arithmetic that tilings need.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace mk {

template <class T>
MK_HD constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

template <class T>
MK_HD constexpr T round_up(T a, T multiple) {
  return ceil_div(a, multiple) * multiple;
}

template <class T>
MK_HD constexpr T min_of(T a, T b) {
  return b < a ? b : a;
}

// a / b of what is not negative, without dividing where a < b: a GPU divides in software.
MK_HD constexpr int quotient(int a, int b) {
  if (a < b) [[likely]]
    return 0;
  return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
}

// a modulo n, never negative.
MK_HD constexpr int wrap(int a, int n) { return ((a % n) + n) % n; }

}  // namespace mk
