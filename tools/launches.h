// SPDX-License-Identifier: MIT
// tools/launches.h — what the runners of all operators share: memory limits, timing, byte counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "batches.h"
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

// How many launches of the row are in memory at once.  Throws UsageError if one alone needs more than the device's
// limit.
int batch_of(const Row& row, const LaunchMemory& memory);

// Queues launch(0) … launch(num_launches-1) back to back with no wait between them, waits for all and
// returns for each the slowest rank's time, in microseconds.  All ranks begin together.  No launch is running
// when it returns or throws, so their memory may go.
std::vector<double> time_launches(World& world, int num_launches, const std::function<void(int)>& launch);

// Sets the row's time to the median over its launches, and its rate.
void set_time(Row& row, std::vector<double> times_us);

// Runs all launches of the row, `batch` of them at a time: data = make(launch) for each, then queue(data) back to back,
// then check(launch, data), then the data go.  Sets the row's time.
template <class Make, class Queue, class Check>
void run_in_batches(Row& row, World& world, int batch, Make&& make, Queue&& queue, Check&& check) {
  std::vector<double> times;
  for (int first = 0; first < row.launches; first += batch) {
    const int count = std::min(batch, row.launches - first);
    std::vector<decltype(make(0))> data;
    for (int i = 0; i < count; ++i) data.push_back(make(first + i));
    const std::vector<double> own = time_launches(world, count, [&](int i) { queue(data[i]); });
    times.insert(times.end(), own.begin(), own.end());
    for (int i = 0; i < count; ++i) check(first + i, data[i]);
  }
  set_time(row, std::move(times));
}

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
