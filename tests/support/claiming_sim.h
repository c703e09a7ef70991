// SPDX-License-Identifier: MIT
// tests/support/claiming_sim.h — a simulated machine whose workers claim tiles (core/turns.h), as those of a GPU do.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "target/sim/sim_machine.h"

namespace mk::test {

// One world at a time: whoever runs it clears the claims of the one before.
struct ClaimingSim : sim::SimMachine {
  using SimMachine::SimMachine;
  using Claims = std::map<std::pair<int, uint64_t>, int64_t>;  // by rank and launch

  static Claims& claims() {
    static Claims all;
    return all;
  }
  int64_t claim() { return claims()[{rank(), epoch()}]++; }
};

}  // namespace mk::test
