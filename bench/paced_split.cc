// SPDX-License-Identifier: MIT
// bench/paced_split.cc — see paced_split.h.
#include "bench/paced_split.h"

#include <algorithm>

#include "base/check.h"
#include "ops/split.h"
#include "target/sm90/communication_block.h"

namespace mk::bench {
namespace {

constexpr int kNicBuffers = 4;

}  // namespace

bool leaves_buffers(int communicating) {
  const int last = communicating % sm90::kWorkersPerSm;
  return last > 0 && last <= sm90::kWorkersPerSm - kNicBuffers;
}

Roster with_room_for_nic(std::span<const RoleName> names, Roster chosen, std::string_view summing) {
  // Half an SM is too little for sums.
  const auto sums = std::ranges::find(names, summing, &RoleName::name) - names.begin();
  if (sums < std::ssize(names) && chosen.num_outside() <= sm90::kWorkersPerSm &&
      !leaves_buffers(chosen.num_outside())) {
    const int more = sm90::kWorkersPerSm + kNicBuffers - chosen.num_outside();
    chosen.set(static_cast<int>(sums), chosen.count(static_cast<int>(sums)) + more);
    chosen.set_compute(chosen.num_compute() - 1);
  }
  while (!leaves_buffers(chosen.num_outside())) {
    int largest = -1;
    for (int role = 0; role < chosen.compute_role(); ++role) {
      if (chosen.seating(role) == Seating::kInside) continue;
      if (largest < 0 || chosen.count(role) > chosen.count(largest)) largest = role;
    }
    chosen.set(largest, chosen.count(largest) - 1);
  }
  return chosen;
}

Split paced_split(const WorldShape& world, const Split& asked, std::span<const RoleName> names, const Roster& chosen,
                  std::string_view summing) {
  if (world.nodes == 1) return asked;
  if (asked.empty()) return split_of(names, with_room_for_nic(names, chosen, summing));
  check_arg(leaves_buffers(chosen.num_outside()),
            "split has {} workers that communicate; of the last eight the NIC needs four, so 4, 12 or 20 are fine",
            chosen.num_outside());
  return asked;
}

}  // namespace mk::bench
