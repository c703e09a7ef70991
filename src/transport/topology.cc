// SPDX-License-Identifier: MIT
// transport/topology.cc — see topology.h.
#include "transport/topology.h"

#include <algorithm>
#include <tuple>

namespace mk {
namespace {

// Longer is later: mlx5_10 comes after mlx5_9.
auto key_of(const std::string& text) { return std::tuple(text.size(), text); }

auto key_of(const Nic& nic) {
  return std::tuple(nic.location.address.empty(), key_of(nic.location.address), key_of(nic.device), nic.port);
}

}  // namespace

Distance distance(const Location& a, const Location& b) {
  const auto [end_a, end_b] = std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  const auto shared = end_a - a.bridges.begin();
  if (shared == 0) {
    const bool same = a.numa_node >= 0 && a.numa_node == b.numa_node;
    return same ? Distance::kNumaNode : Distance::kMachine;
  }
  if (shared == 1) return Distance::kHostBridge;
  // Below a switch each device has a bridge of its own, the switch's port.
  const bool at_its_ports = a.bridges.end() - end_a <= 1 && b.bridges.end() - end_b <= 1;
  return at_its_ports ? Distance::kSwitch : Distance::kSwitches;
}

const char* name_of(Distance distance) {
  switch (distance) {
    case Distance::kSwitch: return "one switch";
    case Distance::kSwitches: return "several switches";
    case Distance::kHostBridge: return "host bridge";
    case Distance::kNumaNode: return "NUMA node";
    case Distance::kMachine: return "machine";
  }
  return "?";
}

void sort_by_address(Topology& topology) {
  std::sort(topology.numa_nodes.begin(), topology.numa_nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
  std::sort(topology.gpus.begin(), topology.gpus.end(),
            [](const Gpu& a, const Gpu& b) { return key_of(a.location.address) < key_of(b.location.address); });
  std::sort(topology.nics.begin(), topology.nics.end(),
            [](const Nic& a, const Nic& b) { return key_of(a) < key_of(b); });
}

}  // namespace mk
