// SPDX-License-Identifier: MIT
// bench/paced_split.cc — see paced_split.h.
#include "bench/paced_split.h"

#include <algorithm>

#include "target/sm90/communication_block.h"

namespace mk::bench {
namespace {

constexpr int kNicBuffers = 4;

}  // namespace

bool leaves_buffers(int communicating) {
  const int last = communicating % sm90::kWorkersPerSm;
  return last > 0 && last <= sm90::kWorkersPerSm - kNicBuffers;
}

Roster with_room_for_nic(std::span<const RoleName> names, Roster chosen) {
  // Half an SM is too little for sums.
  const auto reduce = std::ranges::find(names, "reduce", &RoleName::name) - names.begin();
  if (reduce < std::ssize(names) && chosen.num_outside() <= sm90::kWorkersPerSm &&
      !leaves_buffers(chosen.num_outside())) {
    const int more = sm90::kWorkersPerSm + kNicBuffers - chosen.num_outside();
    chosen.set(static_cast<int>(reduce), chosen.count(static_cast<int>(reduce)) + more);
    chosen.set_compute(chosen.num_compute() - 1);
  }
  while (!leaves_buffers(chosen.num_outside())) {
    int largest = 0;
    for (int role = 1; role < chosen.compute_role(); ++role) {
      if (chosen.count(role) > chosen.count(largest)) largest = role;
    }
    chosen.set(largest, chosen.count(largest) - 1);
  }
  return chosen;
}

}  // namespace mk::bench
