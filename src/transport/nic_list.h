// SPDX-License-Identifier: MIT
// transport/nic_list.h — which NICs the user wants: the text of MKERNEL_NICS.
//
//   mlx5_0,mlx5_1        only these; the rules of placement.h choose which GPU gets which
//   0=mlx5_0;1=mlx5_3    GPU by GPU, all of them; 0=mlx5_0,mlx5_1;… for several NICs each, equally many
//   mlx5_0:2             port 2 of a device that has several
#pragma once

#include <string>
#include <vector>

#include "transport/topology.h"

namespace mk {

// Indices into Topology::nics.  Empty both: nothing was asked for.
struct NicList {
  std::vector<int> allowed;              // in the order of the topology
  std::vector<std::vector<int>> of_gpu;  // of each GPU, in the order of the text
};

// Throws an Error that names what was asked and what there is.
NicList parse_nic_list(const std::string& text, const Topology& topology);

// Whether the text gives NICs GPU by GPU.
bool is_by_gpu(const std::string& text);

// The names for the rank of this number in its node, where no topology is asked: of a plain list one, in turn; else
// those that the text gives GPU `local`.  Throws an Error if it gives none, or not all GPUs as many.  Nothing if
// nothing was asked for.
std::vector<std::string> nics_of_rank(const std::string& text, int local);

}  // namespace mk
