// SPDX-License-Identifier: MIT
// mkernel/network_stats.h — what a rank's proxy has carried so far.
#pragma once

#include <cstdint>

namespace mk {

struct NetworkStats {
  uint64_t commands = 0;  // taken from the workers
  uint64_t puts = 0;      // given to the fabric: fewer, where neighbours were joined
  uint64_t bytes = 0;
  uint64_t batches = 0;        // rounds that took commands: commands / batches is how many there were at once
  uint64_t largest_batch = 0;  // commands
  uint64_t full = 0;           // times the fabric took no more
};

}  // namespace mk
