// SPDX-License-Identifier: MIT
// tests/support/machine_shape.h — topologies of machines nobody here owns, built device by device.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "transport/placement.h"

namespace mk::test {

// A point of the PCI tree below which devices are added.
struct Branch {
  int numa_node = 0;
  std::vector<std::string> bridges;
};

// Addresses grow in the order of the calls.  NICs are called nic0, nic1, … unless they are given a name.
class MachineShape {
 public:
  MachineShape(int numa_nodes, int cores_each, int first_bus = 0x10) : bus_(first_bus) {
    for (int n = 0; n < numa_nodes; ++n) {
      NumaNode node{.number = n};
      for (int c = 0; c < cores_each; ++c) node.cores.push_back(n * cores_each + c);
      topology_.numa_nodes.push_back(node);
    }
  }

  Branch host_bridge(int numa_node) { return {numa_node, {fmt::format("0000:{:02x}", ++bus_)}}; }

  // A switch at a port of what is above: that port, and the switch's own side of it.
  Branch switch_below(const Branch& above) { return below(below(above)); }
  Branch switch_at(int numa_node) { return switch_below(host_bridge(numa_node)); }

  void gpu(const Branch& above) { topology_.gpus.push_back({device(above)}); }

  // The reference is good until the next NIC.
  Nic& nic(const Branch& above, double gbps = 400) {
    const std::string name = fmt::format("nic{}", topology_.nics.size());
    topology_.nics.push_back({.location = device(above), .device = name, .link_layer = "InfiniBand", .gbps = gbps});
    return topology_.nics.back();
  }

  const Topology& topology() const { return topology_; }

 private:
  Branch below(const Branch& above) {
    Branch branch = above;
    branch.bridges.push_back(next_address());
    return branch;
  }

  // Behind a port of its own.
  Location device(const Branch& above) {
    const Branch port = below(above);
    return {next_address(), port.numa_node, port.bridges};
  }

  std::string next_address() { return fmt::format("0000:{:02x}:00.0", ++bus_); }

  int bus_;
  Topology topology_;
};

// Two sockets, two switches at each; `gpus` and `nics` are those behind each switch.
inline MachineShape four_switches(int gpus, int nics, double gbps, int first_bus = 0x10) {
  MachineShape machine(2, 16, first_bus);
  for (const int numa_node : {0, 0, 1, 1}) {
    const Branch branch = machine.switch_at(numa_node);
    for (int i = 0; i < gpus; ++i) machine.gpu(branch);
    for (int i = 0; i < nics; ++i) machine.nic(branch, gbps);
  }
  return machine;
}

inline MachineShape hgx_h100() { return four_switches(2, 2, 400); }
inline MachineShape p5() { return four_switches(2, 4, 200); }
inline MachineShape eight_gpus_four_nics() { return four_switches(2, 1, 400); }

// Which NICs serve each GPU, in the words of MKERNEL_NICS: "0=nic0;1=nic1".
inline std::string served(const Placement& placement) {
  std::string text;
  for (size_t g = 0; g < placement.gpus.size(); ++g) {
    text += fmt::format("{}{}=", g == 0 ? "" : ";", g);
    const std::vector<Rail>& rails = placement.gpus[g].rails;
    for (size_t i = 0; i < rails.size(); ++i) {
      text += fmt::format("{}{}", i == 0 ? "" : ",", placement.topology.nics[rails[i].nic].name());
    }
  }
  return text;
}

}  // namespace mk::test
