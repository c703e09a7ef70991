// SPDX-License-Identifier: MIT
// transport/fabric.h — carries puts from one rank to ranks of other nodes.
//
// What every fabric promises is what the weakest one (EFA SRD) keeps:
//   1. A put copies bytes and pays one signal: it adds an amount, or raises the signal to a stamp.  When the payment
//      is visible at the peer, that put's bytes are.  It says nothing about any other put: puts may land in any order,
//      and a stamp that comes after a larger one leaves the signal as it is.
//   2. Every put lands exactly once, or the fabric fails.
//   3. Nothing blocks.
//   4. After a failure every call says kFailed, and failure() says why.  A peer that goes away is a failure.
//
// A Fabric is one rank's end of it, used by one thread, the rank's proxy.  Puts land in a rank while that rank
// polls.  Ranks agree to part before they destroy their ends: to a peer, an end that is gone has died.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/command.h"

namespace mk {

enum class PutResult { kSent, kFull, kFailed };

class Fabric {
 public:
  virtual ~Fabric() = default;

  // On kSent, `ticket` comes back from poll once the source may be overwritten.
  virtual PutResult put(const Command& command, uint64_t ticket) = 0;

  // Appends the tickets of completed puts, in any order.
  virtual PutResult poll(std::vector<uint64_t>& completed) = 0;

  virtual std::string failure() const = 0;

  // For a proxy with nothing to do: returns after `most`, or earlier if the fabric can tell that a poll would move
  // something.
  virtual void nap(std::chrono::microseconds most) { std::this_thread::sleep_for(most); }
};

}  // namespace mk
