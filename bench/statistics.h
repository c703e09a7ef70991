// SPDX-License-Identifier: MIT
// bench/statistics.h — what is told of repeated times.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace mk::bench {

struct Timing {
  double median_us = 0;
  double p99_us = 0;

  // At least one time.  The 99th percentile is the smallest that 99 % do not exceed.
  static Timing of(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    const size_t count = times.size();
    const double median = (times[(count - 1) / 2] + times[count / 2]) / 2;
    const size_t rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(count)));
    return {median, times[std::max<size_t>(rank, 1) - 1]};
  }
};

}  // namespace mk::bench
