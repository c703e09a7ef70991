// SPDX-License-Identifier: MIT
// bench/nic_queue.h — a rank's puts on their way from a host thread to the warp that plays its NIC.
//
// One producer, one consumer, for benchmarks only.  The host writes a put, then counts it in `posted`; the
// warp copies its bytes, pays its signal, then counts it in `completed`, and only then is its place free
// again.  The counts only grow: nothing is reset between launches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"
#include "core/payment.h"

namespace mk {

struct alignas(64) NicPut {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t bytes = 0;  // as the addresses, a multiple of kGrain; 0: only the signal
  uint64_t* signal = nullptr;
  Payment pays;

  static constexpr uint64_t kGrain = 16;  // what the bulk copy engine copies
};
static_assert(sizeof(NicPut) == 64, "a put is one cache line");

// What the warp of the next launch goes on with, near it.
struct NicWords {
  uint64_t left = 0;     // workers that have done all their communication, over all launches
  uint64_t served = 0;   // puts
  uint64_t free_at = 0;  // when the link is free, on the GPU's clock
};

struct NicQueue {
  NicPut* puts = nullptr;         // host-visible
  uint64_t* posted = nullptr;     // host-visible
  uint64_t* completed = nullptr;  // host-visible
  NicWords* words = nullptr;      // null: the rank has no NIC
  uint32_t capacity = 0;          // a power of two
  double ns_per_byte = 0;
  uint64_t latency_ns = 0;  // from a put's last byte on the link to its signal

  MK_HD NicPut* place(uint64_t number) const { return puts + (number & (capacity - 1)); }
};

}  // namespace mk
