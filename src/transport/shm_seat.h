// SPDX-License-Identifier: MIT
// transport/shm_seat.h — a rank's sign of life to the ranks of its rail on the same machine.
//
// A small file in memory that its rank holds locked.  The kernel releases the lock when the rank lets go of it or
// dies, however it dies.  So a rank that can take the lock knows that its owner is gone.  (A child that a rank forks
// without exec holds the lock as well.)
#pragma once

#include <cstdint>
#include <string>

#include "transport/shared_memory.h"
#include "transport/socket.h"

namespace mk {

// The rank's own.
class ShmSeat {
 public:
  ShmSeat();  // throws Error

  std::string handle() const { return memory_.handle(); }
  uint64_t num_guests() const;       // that have opened it
  void hide() { memory_.forget(); }  // nobody opens it any more

 private:
  SharedMemory memory_;
  Fd lock_;
};

// Another rank's, as a guest of it.
class ShmGuest {
 public:
  explicit ShmGuest(const std::string& handle);  // throws Error if there is none

  bool host_is_gone() const;

 private:
  SharedMemory memory_;
  Fd lock_;
};

}  // namespace mk
