// SPDX-License-Identifier: MIT
// base/atomics.h — atomic access to 64-bit counters on the host.
//
// Every target has a type with these four functions; core/ring.h and the machines are templates over it.
#pragma once

#include <atomic>
#include <cstdint>

namespace mk {

struct HostAtomics {
  static uint64_t load_acquire(const uint64_t* word) {
    return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load(std::memory_order_acquire);
  }
  static void store_release(uint64_t* word, uint64_t value) {
    std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_release);
  }
  static uint64_t add_release(uint64_t* word, uint64_t value) {
    return std::atomic_ref<uint64_t>(*word).fetch_add(value, std::memory_order_release);
  }
  static uint64_t add_relaxed(uint64_t* word, uint64_t value) {
    return std::atomic_ref<uint64_t>(*word).fetch_add(value, std::memory_order_relaxed);
  }
};

}  // namespace mk
