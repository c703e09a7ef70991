// SPDX-License-Identifier: MIT
// transport/staged_link.h — one rank's slots and counters for one peer, and what is put on the inner fabric for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/command.h"
#include "transport/staged_layout.h"

namespace mk {

// What a token of the Mover, or a ticket of the inner fabric, was given for.
struct StagedToken {
  enum Step : uint32_t {
    kRead,     // a piece comes out of its window
    kLanding,  // a piece goes into its window
    kSent,     // a slot goes to the peer
    kCredit,   // the peer is told of emptied slots
  };
  Step step = kRead;
  uint32_t peer = 0;  // by its number
  uint32_t slot = 0;

  uint64_t to_word() const { return uint64_t{step} << 60 | uint64_t{peer} << 32 | slot; }
  static StagedToken of_word(uint64_t word) {
    return {static_cast<Step>(word >> 60), static_cast<uint32_t>(word >> 32) & 0x0fffffff, static_cast<uint32_t>(word)};
  }
};

struct StagedLink {
  int rank;
  int peer;
  int peer_here;   // the peer's number among those of this rank
  int self_there;  // this rank's number among those of the peer
  StagedLayout layout;
  std::byte* memory;  // this rank's
  uint32_t window;    // of the slots, in the inner fabric's registry

  std::byte* outgoing(uint64_t slot) const { return memory + layout.outgoing(peer_here, slot); }
  const std::byte* incoming(uint64_t slot) const { return memory + layout.incoming(peer_here, slot); }
  const uint64_t* arrived(uint64_t slot) const { return counter(layout.arrived(peer_here, slot)); }
  const uint64_t* credit() const { return counter(layout.credit(peer_here)); }

  // The first `bytes` of a slot go to the same one at the peer, which finds one more arrived.
  Command sending(uint64_t slot, uint64_t bytes) const {
    Command command = paying(layout.arrived(self_there, slot), 1);
    command.from_offset = layout.outgoing(peer_here, slot);
    command.to_offset = layout.incoming(self_there, slot);
    command.bytes = bytes;
    return command;
  }
  Command crediting(uint64_t num_slots) const {
    return paying(layout.credit(self_there), static_cast<uint32_t>(num_slots));
  }

  uint64_t token(StagedToken::Step step, uint64_t slot) const {
    return StagedToken{step, static_cast<uint32_t>(peer_here), static_cast<uint32_t>(slot)}.to_word();
  }

 private:
  const uint64_t* counter(uint32_t index) const { return reinterpret_cast<const uint64_t*>(memory) + index; }
  Command paying(uint32_t index, uint32_t amount) const {
    Command command;
    command.from_window = command.to_window = command.signal_window = window;
    command.signal_index = index;
    command.amount = amount;
    command.to_rank = static_cast<uint32_t>(peer);
    return command;
  }
};

}  // namespace mk
