// SPDX-License-Identifier: MIT
// bench/pace_spec.h — how fast the links of the machine that is modelled are.
//
// Figures are those of a real rank, per direction.  W ranks that share a GPU have 1/W of its compute each,
// so the model gives them 1/W of each link.
#pragma once

#include <string>

#include "bench/bench_case.h"

namespace mk::bench {

struct PaceSpec {
  double nvlink_gb_s = 0;  // 0: as fast as it is
  double network_gb_s = 0;

  bool operator==(const PaceSpec&) const = default;
};

// NVLink 4, and a 400 Gb/s NIC.
constexpr PaceSpec kRealPace{450, 50};

// A NIC's delivery after the last byte has left; it has it even where its speed is not paced.
constexpr uint64_t kNetworkLatencyNs = 2000;

// "real", "none", or "nvlink=GBs,network=GBs" with one or both.  Throws UsageError that names --pace.
PaceSpec parse_pace(const std::string& text);

// What parse_pace would read as the same.
std::string name_of(const PaceSpec& pace);

// Of the model's link; 0 where it is not paced.
constexpr double ns_per_byte(double gb_s, int num_ranks) { return gb_s > 0 ? num_ranks / gb_s : 0; }

// The time the busier of a rank's two links is busy, in microseconds.  A link that is not paced takes none.
double communication_us(const Traffic& traffic, const PaceSpec& pace, int num_ranks);

}  // namespace mk::bench
