// SPDX-License-Identifier: MIT
// target/sim/plain_atomics.h — the functions of base/atomics.h without atomics, for a world in one thread.
#pragma once

#include <cstdint>

namespace mk::sim {

struct PlainAtomics {
  static uint64_t load_acquire(const uint64_t* word) { return *word; }
  static void store_release(uint64_t* word, uint64_t value) { *word = value; }
  static uint64_t add_release(uint64_t* word, uint64_t value) { return add_relaxed(word, value); }
  static uint64_t add_relaxed(uint64_t* word, uint64_t value) {
    const uint64_t before = *word;
    *word += value;
    return before;
  }
};

}  // namespace mk::sim
