// SPDX-License-Identifier: MIT
// tools/batches.h — launches of a row in batches, so that any number of them fits into memory.
#pragma once

#include <algorithm>

namespace mk::tools {

// What the data of launches takes, of all ranks of a world together.
struct LaunchMemory {
  double per_launch = 0;  // bytes
  double once = 0;        // bytes that stay while launches come and go: workspace, and what checks them
};

constexpr int kMostInBatch = 1024;  // where launches are tiny: about as many as a CUDA stream takes before it blocks

// How many launches are in memory at once; 0 if not even one fits.  Batches are as few and as equal as they can be.
// A pure function of what all processes know, so that their batches are the same.
constexpr int launches_per_batch(int launches, const LaunchMemory& memory, double limit_bytes) {
  const double room = limit_bytes - memory.once;
  if (!(room >= memory.per_launch)) return 0;
  const double fit = memory.per_launch > 0 ? room / memory.per_launch : kMostInBatch;
  const int most = static_cast<int>(std::min<double>(fit, std::min(launches, kMostInBatch)));
  const int batches = launches / most + (launches % most != 0 ? 1 : 0);
  return launches / batches + (launches % batches != 0 ? 1 : 0);
}

}  // namespace mk::tools
