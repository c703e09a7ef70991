// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_barrier.h — an mbarrier: a word in shared memory that counts arrivals and bytes.
//
// Blocks of a cluster arrive at each other's barriers from other threads of the host, so every change is atomic.  A
// phase ends when nobody is missing and no bytes are.
#pragma once

#include <cstdint>

namespace mk::soft_gpu {

class Barrier {
 public:
  explicit Barrier(uint64_t* word) : word_(word) {}

  void init(uint32_t count);
  void arrive(uint32_t count) { change(count, 0); }
  // Arrives once, and waits for so many bytes more.
  void arrive_and_expect(uint32_t bytes) { change(1, bytes); }
  void expect(uint32_t bytes) { change(0, bytes); }
  void receive(uint32_t bytes) { change(0, -static_cast<int64_t>(bytes)); }
  // Whether the phase of this parity is over.
  bool is_over(uint32_t parity) const;

 private:
  void change(uint32_t arrivals, int64_t bytes);

  uint64_t* const word_;
};

}  // namespace mk::soft_gpu
