// SPDX-License-Identifier: MIT
// transport/topology.h — what a node is made of: NUMA nodes, GPUs, NICs, and how far they are from each other.
//
// Plain data: it comes from discovery.h, or from a test.  Ask placement.h which NIC serves which GPU.
#pragma once

#include <string>
#include <vector>

namespace mk {

// Where a device sits.
struct Location {
  std::string address{};               // PCI, "0000:1a:00.0"; empty if it has none
  int numa_node = -1;                  // its number; -1 if it is not known or near to several
  std::vector<std::string> bridges{};  // from the host bridge down to the device; empty if they are not known
};

struct NumaNode {
  int number = 0;
  std::vector<int> cores{};  // each by its first hardware thread
};

struct Gpu {
  Location location;
};

// A port of an RDMA device.
struct Nic {
  Location location{};
  std::string device{};  // "mlx5_0"
  int port = 1;
  std::string state = "active";  // as the driver calls it, in small letters
  std::string link_layer{};      // "InfiniBand", "Ethernet"; other or empty if the driver does not say
  double gbps = 0;               // gigabits a second; 0 if it is not known

  std::string name() const { return port == 1 ? device : device + ":" + std::to_string(port); }
  bool active() const { return state == "active"; }
};

struct Topology {
  std::vector<NumaNode> numa_nodes;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
};

// From near to far.  In words of nvidia-smi: PIX, PXB, PHB, NODE, SYS.
enum class Distance { kSwitch, kSwitches, kHostBridge, kNumaNode, kMachine };

Distance distance(const Location& a, const Location& b);

const char* name_of(Distance distance);

// Orders GPUs and NICs by PCI address, NICs of no address last.  A GPU's number is its place in this order,
// which is CUDA's, too, where all GPUs are alike.
void sort_by_address(Topology& topology);

}  // namespace mk
