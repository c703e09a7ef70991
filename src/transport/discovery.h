// SPDX-License-Identifier: MIT
// transport/discovery.h — finds a node's GPUs, NICs, NUMA nodes and what lies between them.
//
// hwloc tells of NUMA nodes, cores and PCI devices, sysfs of RDMA ports.  CUDA is not asked and no GPU is woken:
// a GPU is an NVIDIA device of PCI class 03.
#pragma once

#include <string>

#include "transport/topology.h"

namespace mk {

struct DiscoverySource {
  std::string xml;             // a file made by `lstopo FILE.xml`; empty: this machine
  std::string sysfs = "/sys";  // of this machine or a copy; empty: RDMA ports only as far as the XML knows them
};

// Sorted by address.  What a machine lacks is left empty.  Throws an Error if the XML cannot be read, or if this
// build has no hwloc.
Topology discover_topology(const DiscoverySource& source = {});

// Empty if this build can discover, else what to do about it.
std::string why_no_discovery();

}  // namespace mk
