// SPDX-License-Identifier: MIT
// target/sim/random.h — the one source of chance in a simulated run.
//
// Written by hand (splitmix64) because a seed must give the same run on every standard library, and
// std's distributions do not promise that.
#pragma once

#include <cstdint>

namespace mk::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // 0 … below-1.
  uint64_t below(uint64_t bound) { return next() % bound; }

  // True once in `n` times.
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace mk::sim
