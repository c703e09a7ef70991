// SPDX-License-Identifier: MIT
// transport/mover.h — copies between a rank's windows and host memory, where a fabric cannot reach the windows itself.
//
// A Mover belongs to one rank and is used by one thread, its proxy.  What it is asked to do happens later, and reads
// and landings each in the order they were asked for: who sees a landing's signal sees all earlier landings as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mk {

class Mover {
 public:
  virtual ~Mover() = default;

  // Host memory that copies will start from or end in; it stays until unpin.  From the thread that makes the World.
  virtual void pin(std::byte* memory, size_t bytes) = 0;
  virtual void unpin(std::byte* memory) noexcept = 0;

  // Copies out of a window.  `token` comes back from poll when the bytes are in host memory.
  virtual void read(std::byte* to_host, const std::byte* from_window, uint64_t bytes, uint64_t token) = 0;

  // Copies into a window and then adds `amount` to a signal, null for none.  Only this Mover adds to that signal.
  // `token` comes back from poll when `from_host` may be overwritten.
  virtual void land(std::byte* to_window, const std::byte* from_host, uint64_t bytes, uint64_t* signal, uint64_t amount,
                    uint64_t token) = 0;

  // Appends the tokens of what is done since the last call, of reads and landings alike.  Throws Error if the device
  // failed.
  virtual void poll(std::vector<uint64_t>& done) = 0;
};

}  // namespace mk
