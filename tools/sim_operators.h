// SPDX-License-Identifier: MIT
// tools/sim_operators.h — the operators that the simulator can run: a row of one table each.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "cluster.h"
#include "ops/fuzz_case.h"
#include "ops/prediction.h"
#include "sim_requests.h"

namespace mk::tools {

struct FuzzOutcome {
  std::string what;  // world, shape and all else the seed drew
  std::vector<sim::Complaint> complaints;
};

struct SimOperator {
  const char* name;
  FuzzOutcome (*fuzz)(uint64_t seed, const FuzzLimits& limits, std::ostream* trace);  // trace may be null
  Prediction (*predict)(const Cluster& cluster, const SimRequest& request);           // with n and k filled in
  int64_t n_share;  // where the request leaves n and k open: M / n_share and M / k_share
  int64_t k_share;
};

std::span<const SimOperator> sim_operators();

}  // namespace mk::tools
