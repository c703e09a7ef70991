// SPDX-License-Identifier: MIT
// transport/discovery_hwloc.cc — see discovery.h.
#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/check.h"
#include "transport/discovery.h"
#include "transport/rdma_ports.h"

namespace mk {
namespace {

constexpr unsigned kNvidia = 0x10de;
constexpr unsigned kDisplay = 0x0300;
constexpr unsigned k3dController = 0x0302;

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;

Handle load(const std::string& xml) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error(ErrorCode::kUnavailable, "hwloc cannot be started");
  Handle handle(raw);
  check_arg(xml.empty() || hwloc_topology_set_xml(raw, xml.c_str()) == 0, "xml is '{}', which hwloc cannot read", xml);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // Plugins that would start a GPU's driver.
  for (const char* plugin : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  }
  if (hwloc_topology_load(raw) == 0) return handle;
  check_arg(xml.empty(), "xml is '{}', which hwloc cannot read", xml);
  throw Error(ErrorCode::kUnavailable, "hwloc cannot read this machine");
}

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;
using BridgeAttributes = hwloc_obj_attr_u::hwloc_bridge_attr_s;

std::string address_of(const PciAttributes& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

std::string name_of(const BridgeAttributes& bridge) {
  if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) return address_of(bridge.upstream.pci);
  return fmt::format("{:04x}:{:02x}", bridge.downstream.pci.domain, bridge.downstream.pci.secondary_bus);
}

class HwlocMachine {
 public:
  explicit HwlocMachine(const std::string& xml) : handle_(load(xml)) {
    find_numa_nodes();
    for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(handle_.get(), pci)) != nullptr;) {
      const PciAttributes& attributes = pci->attr->pcidev;
      Location location = location_of(pci);
      const bool is_gpu = attributes.class_id == kDisplay || attributes.class_id == k3dController;
      if (attributes.vendor_id == kNvidia && is_gpu) found_.gpus.push_back({location});
      locations_[location.address] = std::move(location);
    }
    for (hwloc_obj_t os = nullptr; (os = hwloc_get_next_osdev(handle_.get(), os)) != nullptr;) {
      if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) add_ports_of(os);
    }
  }

  // Ports that `nics` names as well are as it says: it knows their speed.
  Topology with(const std::vector<Nic>& nics) {
    for (Nic nic : nics) {
      const auto found = locations_.find(nic.location.address);
      if (found != locations_.end()) nic.location = found->second;
      std::erase_if(found_.nics, [&](const Nic& other) { return other.name() == nic.name(); });
      found_.nics.push_back(std::move(nic));
    }
    sort_by_address(found_);
    return found_;
  }

 private:
  hwloc_obj_t object(hwloc_obj_type_t type, unsigned index) const {
    return hwloc_get_obj_by_type(handle_.get(), type, index);
  }

  // Those that have cores of their own: neither a GPU's memory nor a second kind of memory at the same cores.
  void find_numa_nodes() {
    hwloc_obj_t node = nullptr;
    for (unsigned i = 0; (node = object(HWLOC_OBJ_NUMANODE, i)) != nullptr; ++i) {
      const auto same = [node](hwloc_obj_t other) { return hwloc_bitmap_isequal(node->cpuset, other->cpuset) != 0; };
      if (hwloc_bitmap_iszero(node->cpuset) || std::any_of(nodes_.begin(), nodes_.end(), same)) continue;
      nodes_.push_back(node);
      found_.numa_nodes.push_back({static_cast<int>(node->os_index), cores_in(node->cpuset)});
    }
  }

  std::vector<int> cores_in(hwloc_const_cpuset_t set) const {
    std::vector<int> cores;
    hwloc_obj_t core = nullptr;
    for (unsigned i = 0; (core = object(HWLOC_OBJ_CORE, i)) != nullptr; ++i) {
      if (hwloc_bitmap_isincluded(core->cpuset, set)) cores.push_back(hwloc_bitmap_first(core->cpuset));
    }
    std::sort(cores.begin(), cores.end());
    return cores;
  }

  Location location_of(hwloc_obj_t pci) const {
    Location location{.address = address_of(pci->attr->pcidev), .numa_node = numa_node_of(pci)};
    for (hwloc_obj_t up = pci->parent; up != nullptr && up->type == HWLOC_OBJ_BRIDGE; up = up->parent) {
      location.bridges.insert(location.bridges.begin(), name_of(up->attr->bridge));
    }
    return location;
  }

  int numa_node_of(hwloc_obj_t device) const {
    const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(handle_.get(), device);
    int number = -1;
    for (const hwloc_obj_t node : nodes_) {
      if (!hwloc_bitmap_intersects(node->cpuset, near->cpuset)) continue;
      if (number >= 0) return -1;
      number = static_cast<int>(node->os_index);
    }
    return number;
  }

  void add_ports_of(hwloc_obj_t os) {
    Location location;
    for (hwloc_obj_t up = os->parent; up != nullptr; up = up->parent) {
      if (up->type != HWLOC_OBJ_PCI_DEVICE) continue;
      location = location_of(up);
      break;
    }
    for (int port = 1;; ++port) {
      const char* state = hwloc_obj_get_info_by_name(os, fmt::format("Port{}State", port).c_str());
      if (state == nullptr) break;
      found_.nics.push_back({.location = location, .device = os->name, .port = port, .state = port_state(state)});
    }
  }

  Handle handle_;
  std::vector<hwloc_obj_t> nodes_;
  std::map<std::string, Location> locations_;  // of PCI devices, by their address
  Topology found_;
};

}  // namespace

std::string why_no_discovery() { return {}; }

Topology discover_topology(const DiscoverySource& source) {
  return HwlocMachine(source.xml).with(source.sysfs.empty() ? std::vector<Nic>{} : read_rdma_ports(source.sysfs));
}

}  // namespace mk
