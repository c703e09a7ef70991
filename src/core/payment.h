// SPDX-License-Identifier: MIT
// core/payment.h — what a put does to its signal once its bytes are there: it adds an amount or sets a stamp.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace mk {

struct Payment {
  uint64_t amount = 0;
  uint64_t stamp = 0;  // 0: none, the amount is added; else the amount is not used

  friend bool operator==(const Payment&, const Payment&) = default;
};

// What a signal holds afterwards.  Puts land in any order, so a stamp may find a larger one: that one stays.
MK_HD constexpr uint64_t after_payment(uint64_t held, const Payment& payment) {
  if (payment.stamp == 0) return held + payment.amount;
  return payment.stamp > held ? payment.stamp : held;
}

}  // namespace mk
