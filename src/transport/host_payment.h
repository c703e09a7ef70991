// SPDX-License-Identifier: MIT
// transport/host_payment.h — pays a signal in host memory.
#pragma once

#include <cstdint>

#include "base/atomics.h"
#include "core/payment.h"

namespace mk {

// Releases every earlier write of the caller, so the bytes of the put must be written before; pairs with the wait of
// the workers of the rank that holds the signal.  A stamp needs no compare-and-swap: a stamped signal has one payer
// (core/signal.h), one thread lands all puts of that payer, and nobody else writes between the load and the store.
inline void pay_release(uint64_t* signal, const Payment& payment) {
  if (payment.stamp == 0) {
    HostAtomics::add_release(signal, payment.amount);
  } else if (HostAtomics::load_acquire(signal) < payment.stamp) {
    HostAtomics::store_release(signal, payment.stamp);
  }
}

}  // namespace mk
