// SPDX-License-Identifier: MIT
// transport/rdma_ports.h — what Linux says about RDMA devices: /sys/class/infiniband.
#pragma once

#include <filesystem>
#include <vector>

#include "transport/topology.h"

namespace mk {

// One Nic a port.  Of its location only the PCI address is filled in, and that only if it has one: soft-RoCE has none.
// `sysfs` is /sys or a copy of it; without RDMA devices in it the answer is empty.
std::vector<Nic> read_rdma_ports(const std::filesystem::path& sysfs);

// "4: ACTIVE" → "active"; hwloc says just "4".
std::string port_state(const std::string& text);

}  // namespace mk
