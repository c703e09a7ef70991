// SPDX-License-Identifier: MIT
// core/stamp.h — a signal's value that carries the number of a launch: epoch in the upper half, a number in the lower.
//
// For signals that are not paid in every launch: a waiter cannot multiply by the epoch, but it can ask for at least
// stamp_of(epoch, low), where `low` tells stamps of one launch apart, as the use of a slot does.  Epochs start at 1, so
// no stamp is 0; they must stay below 2^32.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace mk {

MK_HD constexpr uint64_t stamp_of(uint64_t epoch, uint32_t low) { return epoch << 32 | low; }
MK_HD constexpr uint64_t epoch_in(uint64_t stamp) { return stamp >> 32; }
MK_HD constexpr uint32_t low_in(uint64_t stamp) { return static_cast<uint32_t>(stamp); }

}  // namespace mk
