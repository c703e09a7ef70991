// SPDX-License-Identifier: MIT
// transport/efa_port.cc — see efa_port.h.
#include "transport/efa_port.h"

#include "transport/efa_queue.h"
#include "transport/rdma_fabric_port.h"

namespace mk {
namespace {

constexpr RdmaKind kEfa = {
    "efa", is_efa_device,
    [](const RdmaDevice& device, const RdmaSettings&, const RdmaDepths& depths) -> std::unique_ptr<RdmaQueue> {
      return std::make_unique<EfaQueue>(device, depths);
    },
    efa_most_bytes, "max_rdma_size"};

}  // namespace

std::unique_ptr<FabricPort> open_efa_port(const PortSettings& settings, const WindowRegistry& windows) {
  return std::make_unique<RdmaFabricPort>(kEfa, settings, windows);
}

std::string efa_reach(const PortSettings& settings, std::byte* memory, uint64_t bytes) {
  return rdma_reach(kEfa, settings, memory, bytes);
}

std::string why_no_efa() { return why_no_rdma(kEfa, "EFA device"); }

std::vector<std::string> efa_devices() { return rdma_device_names(kEfa.serves); }

}  // namespace mk
