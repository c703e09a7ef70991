// SPDX-License-Identifier: MIT
// core/ring.h — the command queue from the workers of a rank to its proxy.
//
// Many producers, one consumer.  A producer claims a position, waits until the slot of one lap earlier
// was consumed, writes the command and stores its last word, the seal, with release; the consumer loads
// the seal with acquire.  The seal holds the lap's parity, so a slot is never cleared and a zeroed ring
// is empty.  Positions only grow; they are counters, not indices.
//
// Waiting is the caller's business: nothing here blocks.  Atomics is HostAtomics or a GPU's equivalent.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/command.h"

namespace mk {

struct RingView {
  Command* slots = nullptr;       // host-visible
  uint64_t* claimed = nullptr;    // near the producers
  uint64_t* consumed = nullptr;   // host-visible: commands the proxy has taken
  uint64_t* completed = nullptr;  // host-visible: commands, from the first on, whose source is free again
  uint32_t capacity = 0;          // a power of two

  MK_HD Command* slot(uint64_t position) const { return slots + (position & (capacity - 1)); }
  MK_HD uint64_t seal(uint64_t position) const { return 1 - ((position / capacity) & 1); }
};

template <class Atomics>
struct RingProducer {
  RingView ring;

  MK_HD uint64_t claim() const { return Atomics::add_relaxed(ring.claimed, 1); }

  // Pairs with RingConsumer::pop: the old command was copied out before the slot is written again.
  MK_HD bool is_free(uint64_t position) const {
    return position < ring.capacity || Atomics::load_acquire(ring.consumed) > position - ring.capacity;
  }

  // Pairs with RingConsumer::peek.  Releases the command and every earlier write of the caller.
  MK_HD void publish(uint64_t position, const Command& command) const {
    Command* slot = ring.slot(position);
    copy_unsealed(*slot, command);
    Atomics::store_release(&slot->seal, ring.seal(position));
  }
};

template <class Atomics>
class RingConsumer {
 public:
  explicit RingConsumer(RingView ring) : ring_(ring) {}

  // The next command, or one behind it, or null.  It stays valid until pop.
  const Command* peek(uint32_t ahead = 0) const {
    if (ahead >= ring_.capacity) return nullptr;
    const uint64_t position = position_ + ahead;
    const Command* slot = ring_.slot(position);
    return Atomics::load_acquire(&slot->seal) == ring_.seal(position) ? slot : nullptr;
  }

  void pop(uint32_t count = 1) { Atomics::store_release(ring_.consumed, position_ += count); }

  // Pairs with the wait for `completed` before a producer overwrites the source of a put.
  void complete(uint64_t count) { Atomics::store_release(ring_.completed, count); }

  uint64_t position() const { return position_; }

 private:
  RingView ring_;
  uint64_t position_ = 0;
};

}  // namespace mk
