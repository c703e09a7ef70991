// SPDX-License-Identifier: MIT
// transport/rdma_signals.h — pays the signals of puts that have landed in a rank's windows, wherever those are.
//
//   windows in        a signal is paid by         when
//   host memory       the proxy, here             at once: a completion is behind all bytes it speaks of
//   a GPU's memory    a write of its Mover        with the next move: the GPU must see these bytes first (settle)
#pragma once

#include <cstdint>
#include <vector>

#include "transport/mover.h"
#include "transport/rdma_keys.h"
#include "transport/rdma_message.h"

namespace mk {

class RdmaSignals {
 public:
  // `mover`: of the device whose memory the windows are; null: they are host memory.  Both outlive it.
  RdmaSignals(const RdmaKeys& keys, Mover* mover) : keys_(keys), mover_(mover) {}

  // For bytes whose completion was seen.  False if there is no such signal.
  bool pay(const SignalPayment& payment);

  // Pays what is due, and moves on what is on its way.  Throws Error if the device failed.
  void move();

  // What is not on its way will not be paid.
  void forget_due() { due_.clear(); }

  // Whether some are due or on their way.
  bool are_paying() const { return !due_.empty() || num_under_way_ > 0; }

 private:
  struct Due {
    uint64_t* signal;
    Payment pays;
  };

  const RdmaKeys& keys_;
  Mover* mover_;
  std::vector<Due> due_;
  uint64_t num_under_way_ = 0;
  std::vector<uint64_t> done_;  // move's scratch
};

}  // namespace mk
