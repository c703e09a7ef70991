// SPDX-License-Identifier: MIT
// tools/cluster.h — a machine room to predict for: how many ranks, and what things cost there.
#pragma once

#include <string>

#include "core/world_shape.h"
#include "target/sim/costs.h"

namespace mk::tools {

struct Cluster {
  std::string name;
  WorldShape world;
  int sms = 132;  // per rank
  sim::Costs costs = {};
  bool is_scale_model = false;  // all ranks share a GPU, as in `mkernel bench`

  // The scale model's NIC is a warp of a rank's last communication SM.
  bool warp_plays_nic() const { return is_scale_model && world.nodes > 1; }
};

// A preset's name, or a JSON file.  Throws UsageError that names --cluster and what is wrong.
Cluster load_cluster(const std::string& preset_or_file);

std::string cluster_presets();  // "h200-1x8, …"

}  // namespace mk::tools
