// SPDX-License-Identifier: MIT
// transport/rdma_fabric_port.h — one rank's end of an RDMA fabric before it is connected.
//
// Queue pairs are made, and receive, from the beginning; connecting tells them of their peers and waits for nobody.
// A peer that is not there is found by the first message to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/fabric_port.h"
#include "transport/rdma_address.h"
#include "transport/rdma_keys.h"
#include "transport/rdma_lane.h"

namespace mk {

// What a fabric over RDMA NICs says of itself; the rest is shared.
struct RdmaKind {
  const char* name;
  DeviceFilter serves;
  std::unique_ptr<RdmaQueue> (*make_queue)(const RdmaDevice&, const RdmaSettings&, const RdmaDepths&);

  // The longest message, and what the device calls that.
  uint64_t (*most_bytes)(const RdmaDevice&);
  const char* most_bytes_name;
};

class RdmaFabricPort : public FabricPort {
 public:
  // Throws Error.
  RdmaFabricPort(const RdmaKind& kind, const PortSettings& settings, const WindowRegistry& windows);

  std::string address() const override { return encode(address_); }
  std::string describe() const override;
  std::unique_ptr<Fabric> connect(const std::vector<std::string>& addresses) override;
  std::string share_window(uint32_t window) override { return keys_.share(window); }
  void learn_window(uint32_t window, int rank, const std::string& key) override { keys_.learn(window, rank, key); }

 private:
  void open_devices();
  int choose_depth(int num_queues) const;
  void make_lanes();
  uint64_t most_bytes() const;

  RdmaKind kind_;
  PortSettings settings_;
  const WindowRegistry& windows_;
  RdmaDevices devices_;
  RdmaKeys keys_;
  RdmaAddress address_;
  std::vector<std::unique_ptr<RdmaLane>> lanes_;  // in the order of the address, without the own node; until connected
};

// See FabricKind::reach.
std::string rdma_reach(const RdmaKind& kind, const PortSettings& settings, std::byte* memory, uint64_t bytes);

// Empty if there is a device that a port can be opened on, else what is missing.
std::string why_no_rdma(const RdmaKind& kind, const char* what);

}  // namespace mk
