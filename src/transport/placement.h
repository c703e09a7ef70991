// SPDX-License-Identifier: MIT
// transport/placement.h — which NIC serves which GPU, on which rail, with the proxy on which cores.
//
// A pure function of a node's topology.  The rules, the stronger first:
//   1. A port that is not active serves nobody, nor does a NIC far slower than the fastest (kFarSlowerBy).
//   2. A GPU's NIC is one at the least distance from it.
//   3. GPUs share a NIC only if no other at that distance is idle.
//   4. Of NICs at that distance, a slower one serves only if no faster one is idle.
//   5. All GPUs have equally many rails: a second one, or more, if each GPU can have as many NICs to itself
//      at its least distance, all as fast as the fastest there.
//   6. Ties follow the order of PCI addresses, whatever the order of the input.
// Nodes of the same shape therefore agree: rank r of each has the same rails.
#pragma once

#include <string>
#include <vector>

#include "transport/topology.h"

namespace mk {

// A NIC this many times slower than the fastest is one for storage or management: even if a whole node of eight
// GPUs shared the fastest, each would have more.
constexpr int kFarSlowerBy = 8;

struct Rail {
  int number = 0;  // of all rails of the node
  int nic = 0;     // in Placement::topology.nics
  Distance distance = Distance::kMachine;
};

struct GpuPlacement {
  std::vector<Rail> rails;  // empty if no NIC can serve
  std::vector<int> cores;   // for the proxy: near its first NIC, and where there are enough, its own
};

enum class NicUse { kServes, kIdle, kNotActive, kFarSlower, kNotListed };

struct Placement {
  Topology topology;               // sorted by address: what the numbers below count
  std::vector<GpuPlacement> gpus;  // of each GPU; the rank of this number in the node drives it
  std::vector<NicUse> nics;        // of each NIC
  int rails_per_gpu = 0;
};

// `nics` overrides rules: see nic_list.h.  Throws an Error if it asks for what is not there.
// `most_rails` bounds the rails that are chosen for a GPU, for worlds whose nodes differ; 0: as many as can be.
Placement place(Topology topology, const std::string& nics = "", int most_rails = 0);

const char* name_of(NicUse use);

}  // namespace mk
