// SPDX-License-Identifier: MIT
// bench/measure.h — one problem: the fused operator, its baselines and its bound, in one interleaved run.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "bench/bench_case.h"
#include "bench/pace_spec.h"
#include "bench/statistics.h"
#include "mkernel/options.h"
#include "tools/judge.h"

namespace mk::bench {

struct MeasureOptions {
  PaceSpec pace = kRealPace;
  Split split;  // empty: chosen for the shape
  int repetitions = 20;
  bool fused_only = false;  // no baselines, no bound: to compare builds
  Options world;
};

struct Measurement {
  BenchCase shape;
  std::string device_name;
  Timing compute;               // all ranks' products alone
  Traffic traffic;              // by formula
  double communication_us = 0;  // of that
  Timing serial;
  int serial_chunks = 0;
  Timing overlapped;
  int overlapped_chunks = 0;
  std::optional<Timing> fused;
  std::string why_no_fused;  // where fused is empty
  tools::CheckResult check;  // the worst of all that was checked
  std::string copy_path;     // of the baselines' transfers
  double copy_gb_s = 0;

  double bound_us() const { return std::max(compute.median_us, communication_us); }
  double best_baseline_us() const { return std::min(serial.median_us, overlapped.median_us); }
};

// On the GPU.  Throws Error.
Measurement measure(const BenchCase& bench_case, const MeasureOptions& options);

// What a launch costs when there is nothing to do, links as fast as they are, but for the NIC's latency.
struct FixedCost {
  BenchCase shape;
  std::string device_name;
  Timing empty;  // a kernel of the same grid that does nothing
  Timing serial;
  Timing overlapped;
  std::optional<Timing> fused;
  tools::CheckResult check;
};
// Of an operator with M, N and K.
FixedCost measure_fixed_cost(OpKind op, const WorldShape& world, DType dtype, const MeasureOptions& options);

}  // namespace mk::bench
