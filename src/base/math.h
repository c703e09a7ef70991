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

template <class T>
MK_HD constexpr T max_of(T a, T b) {
  return a < b ? b : a;
}

// a / b of what is not negative, without dividing where a < b: a GPU divides in software.
MK_HD constexpr int quotient(int a, int b) {
  if (a < b) [[likely]]
    return 0;
  return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
}

// Divides what is not negative by a number known before, by multiplying: a GPU divides in software.
class Divider {
 public:
  constexpr Divider() : Divider(1) {}
  explicit constexpr Divider(int by) : by_(by) {
    while ((int64_t{1} << shift_) < by) ++shift_;
    factor_ = static_cast<uint32_t>(ceil_div<uint64_t>(uint64_t{1} << (31 + shift_), by));
  }

  MK_HD constexpr int by() const { return by_; }

  // factor / 2^(31 + shift) is 1 / by, or so little more that it does not matter below 2^31.
  MK_HD constexpr int quotient(int a) const {
    return static_cast<int>(static_cast<uint32_t>(uint64_t{2 * static_cast<uint32_t>(a)} * factor_ >> 32) >> shift_);
  }

 private:
  int by_ = 1;
  uint32_t shift_ = 0;
  uint32_t factor_ = 0;
};

// a modulo n, never negative.
MK_HD constexpr int wrap(int a, int n) { return ((a % n) + n) % n; }

}  // namespace mk
