// SPDX-License-Identifier: MIT
// transport/verbs_port.cc — see verbs_port.h.
#include "transport/verbs_port.h"

#include "transport/rdma_fabric_port.h"
#include "transport/verbs_queue.h"

namespace mk {
namespace {

// Not iWARP, whose connections are made another way.
bool has_connections(ibv_device* device) {
  return device->transport_type == IBV_TRANSPORT_IB && device->node_type == IBV_NODE_CA;
}

constexpr RdmaKind kVerbs = {
    "verbs", has_connections,
    [](const RdmaDevice& device, const RdmaSettings& settings, const RdmaDepths& depths) -> std::unique_ptr<RdmaQueue> {
      return std::make_unique<VerbsQueue>(device, settings, depths);
    },
    [](const RdmaDevice& device) -> uint64_t { return device.port_attributes().max_msg_sz; }, "max_msg_sz"};

}  // namespace

std::unique_ptr<FabricPort> open_verbs_port(const PortSettings& settings, const WindowRegistry& windows) {
  return std::make_unique<RdmaFabricPort>(kVerbs, settings, windows);
}

std::string verbs_reach(const PortSettings& settings, std::byte* memory, uint64_t bytes) {
  return rdma_reach(kVerbs, settings, memory, bytes);
}

std::string why_no_verbs() { return why_no_rdma(kVerbs, "InfiniBand or RoCE device"); }

std::vector<std::string> verbs_devices() { return rdma_device_names(kVerbs.serves); }

}  // namespace mk
