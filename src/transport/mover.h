// SPDX-License-Identifier: MIT
// transport/mover.h — reaches windows that lie in a device's memory: copies to and from them, and pays signals there.
//
// A Mover belongs to one rank and is used by one thread, its proxy.  Its calls only queue work.  Reads are done in the
// order they were asked for, and so are landings: who sees a landing's signal sees all earlier landings as well.
//
// Where a NIC reaches the windows itself, the Mover only pays signals: landings without bytes, each after a settle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/payment.h"
#include "transport/gpu_memory.h"

namespace mk {

class Mover {
 public:
  virtual ~Mover() = default;

  // Host memory that copies will start from or end in; it stays until unpin.  From the thread that makes the World.
  virtual void pin(std::byte* memory, size_t bytes) = 0;
  virtual void unpin(std::byte* memory) noexcept = 0;

  // Copies out of a window.  `token` comes back from poll when the bytes are in host memory.
  virtual void read(std::byte* to_host, const std::byte* from_window, uint64_t bytes, uint64_t token) = 0;

  // Copies into a window and then pays a signal, null for none.  Only this Mover pays that signal.
  // `token` comes back from poll when `from_host` may be overwritten.
  virtual void land(std::byte* to_window, const std::byte* from_host, uint64_t bytes, uint64_t* signal,
                    const Payment& payment, uint64_t token) = 0;

  // Appends the tokens of what is done since the last call, of reads and landings alike.  Throws Error if the device
  // failed.
  virtual void poll(std::vector<uint64_t>& done) = 0;

  // What a NIC needs to reach a window by itself.  From the thread that makes plans, at any time.
  virtual GpuMemory find(const std::byte* window, uint64_t bytes) = 0;

  // Whatever NICs had written into the windows, as their completions told before this call, is visible after it to
  // workers of all ranks of the node.  A completion alone tells the host, not the device: signals are paid after this.
  virtual void settle() = 0;

  // Empty if settle can do that, else why not.  From the thread that makes the World.
  virtual std::string why_not_settled() const = 0;
};

}  // namespace mk
