// SPDX-License-Identifier: MIT
// tools/launches.h — what the runners of all operators share: memory limits, timing, byte counts.
#pragma once

#include <cstdint>
#include <functional>

#include "mkernel/world.h"
#include "report.h"
#include "request.h"
#include "runtime/plan.h"

namespace mk::tools {

// A Row with what the request and the World say; shape defaults are filled in.
Row start_row(const char* op, const World& world, const RunRequest& request);

// Every process has the same flags, as far as the row shows them, or all throw UsageError with what differs.
void check_same_flags(const Row& row, const Split& split, World& world);

// What an allocation takes at most: devices round up.
double allocated_bytes(double rows, double cols, DType dtype);

// Throws UsageError if all launches of the row together need more than the device's limit.
void check_memory(const Row& row, double bytes_per_launch, double bytes_once);

// Queues launch(0) … launch(num_launches-1) back to back with no wait between them, waits for all and
// returns the median over launches of the slowest rank's time, in microseconds.  No launch is running
// when it returns or throws, so their memory may go.
double time_launches(World& world, int num_launches, const std::function<void(int)>& launch);

// Calls body(rank) for those in this process.
template <class Body>
void for_each_rank_here(const World& world, Body&& body) {
  for (int i = 0; i < world.num_ranks(); ++i) body(world.first_rank() + i);
}

// Puts together what every process found: the row is then the same in all of them.
void merge(Row& row, World& world);

// Sets the row's traffic from the counters of `plan` and of the World; the row's launches are the only
// ones they have seen.
void count_traffic(Row& row, const World& world, const runtime::Plan& plan);

}  // namespace mk::tools
