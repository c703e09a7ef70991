// SPDX-License-Identifier: MIT
// transport/staged_layout.h — where the slots and counters of a rank lie in its one window of host memory.
//
//   arrived[peer][slot]   paid by the peer with each slot it sends
//   credit[peer]          paid by the peer: how many slots of ours it has emptied
//   outgoing[peer][slot]  from here the inner fabric reads
//   incoming[peer][slot]  here it writes
//
// Peers are the other nodes of the rail, numbered without the own one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/staged_settings.h"
#include "transport/staged_slot.h"

namespace mk {

// The number that `node` has among the peers of `own`.
constexpr int peer_number(int node, int own) { return node < own ? node : node - 1; }

struct StagedLayout {
  StagedLayout(int nodes, const StagedSettings& settings)
      : num_peers(static_cast<uint64_t>(nodes - 1)),
        num_slots(static_cast<uint64_t>(settings.slots)),
        payload_bytes(settings.slot_bytes),
        slot_bytes((sizeof(SlotHeader) + piece_room(settings.slot_bytes) + 63) / 64 * 64) {}

  uint64_t num_peers;
  uint64_t num_slots;      // to a peer
  uint64_t payload_bytes;  // most of one piece
  uint64_t slot_bytes;     // with header and piece, whole cache lines

  uint32_t arrived(int peer, uint64_t slot) const {
    return static_cast<uint32_t>(static_cast<uint64_t>(peer) * num_slots + slot);
  }
  uint32_t credit(int peer) const { return static_cast<uint32_t>(num_peers * num_slots) + static_cast<uint32_t>(peer); }

  uint64_t outgoing(int peer, uint64_t slot) const { return slot_at(static_cast<uint64_t>(peer) * num_slots + slot); }
  uint64_t incoming(int peer, uint64_t slot) const {
    return slot_at((num_peers + static_cast<uint64_t>(peer)) * num_slots + slot);
  }
  uint64_t bytes() const { return slot_at(2 * num_peers * num_slots); }

 private:
  static constexpr uint64_t kPage = 4096;

  uint64_t slot_at(uint64_t number) const {
    const uint64_t counter_bytes = num_peers * (num_slots + 1) * sizeof(uint64_t);
    return (counter_bytes / kPage + 1) * kPage + number * slot_bytes;
  }
};

}  // namespace mk
