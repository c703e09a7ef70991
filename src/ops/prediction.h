// SPDX-License-Identifier: MIT
// ops/prediction.h — what a simulated run of a large problem says, whatever the operator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "target/sim/sim_world.h"

namespace mk {

// Shares of the run's time, over all workers of a role.
struct RoleUse {
  std::string_view role;
  int workers = 0;  // per rank
  double busy = 0;
  double waiting = 0;
  double idle = 0;
};

// The tile of a block, and how many blocks share one.
struct PredictedTile {
  int m = 0;
  int n = 0;
  int cluster = 1;

  friend bool operator==(const PredictedTile&, const PredictedTile&) = default;
};

struct Prediction {
  PredictedTile tile;
  double time_us = 0;
  double tflops_per_rank = 0;
  double compute_us = 0;  // alone, all SMs at full rate
  double nvlink_us = 0;   // alone
  double network_us = 0;  // alone
  uint64_t nvlink_bytes = 0;
  uint64_t network_bytes = 0;
  std::vector<RoleUse> roles;

  double bound_us() const { return std::max({compute_us, nvlink_us, network_us}); }
  double overlap() const { return bound_us() / time_us; }
};

// Reads a finished run of one launch; `flops` are one rank's.
Prediction predict(const sim::SimWorld& world, double flops);

}  // namespace mk
