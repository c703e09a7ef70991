// SPDX-License-Identifier: MIT
// bench/statistics.h — median and 99th percentile of repeated times.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace mk::bench {

// Of at least one value.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

struct Timing {
  double median_us = 0;
  double p99_us = 0;

  // At least one time.  The 99th percentile is the smallest that 99 % do not exceed.
  static Timing of(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    const size_t rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(times.size())));
    return {median(times), times[std::max<size_t>(rank, 1) - 1]};
  }
};

}  // namespace mk::bench
