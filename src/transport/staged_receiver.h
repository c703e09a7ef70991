// SPDX-License-Identifier: MIT
// transport/staged_receiver.h — slots that one peer sends, and how they get into the windows.
//
// Slots may arrive in any order and are taken in the order they were filled, so that the last piece of a put, which
// pays its signal, lands last.  A slot that has landed is free again: the peer is paid a credit for it.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/fabric.h"
#include "transport/mover.h"
#include "transport/staged_link.h"
#include "transport/window_registry.h"

namespace mk {

class StagedReceiver {
 public:
  // `windows` are this rank's; they and `mover` outlive it.
  StagedReceiver(const StagedLink& link, const WindowRegistry& windows, Mover& mover)
      : link_(link), windows_(windows), mover_(mover), num_landings_(link.layout.num_slots) {}

  // Lands what has arrived.  Throws Error if a slot makes no sense; nothing of it is written then.
  void take();

  // A piece of the slot is in its window.
  void piece_has_landed(uint64_t slot);

  // Pays for what is emptied, if there is room.
  PutResult pay(Fabric& inner);

  // Whether pieces are landing.
  bool is_landing() const { return num_emptied_ < num_taken_; }

 private:
  struct Landing {
    std::byte* to;
    const std::byte* from;
    uint64_t bytes;
    uint64_t* signal;
    Payment pays;
  };
  void read_slot(uint64_t slot);
  Landing to_landing(const Piece& piece, const std::byte* payload) const;
  [[noreturn]] void refuse(const std::string& what) const;

  StagedLink link_;
  const WindowRegistry& windows_;
  Mover& mover_;
  std::vector<uint64_t> num_landings_;  // [slot], under way
  uint64_t num_taken_ = 0;              // slots, since the beginning
  uint64_t num_emptied_ = 0;
  uint64_t num_paid_ = 0;
  std::vector<Landing> landings_;  // of the slot that is read
};

}  // namespace mk
