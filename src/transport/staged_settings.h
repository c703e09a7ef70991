// SPDX-License-Identifier: MIT
// transport/staged_settings.h — every setting of a fabric that goes through host memory, with its meaning and default.
#pragma once

#include <cstdint>

namespace mk {

struct StagedSettings {
  // Slots to each peer, and as many from it; the same on all ranks.  Two keep one slot on the wire while the next is
  // filled; more hide how long a copy or a credit takes.
  int slots = 16;

  // Payload that a slot holds; longer puts are cut into pieces.  The same on all ranks.
  uint64_t slot_bytes = 128 << 10;

  // Puts to a peer that wait for a slot before `put` says kFull.
  int queue_puts = 256;
};

}  // namespace mk
