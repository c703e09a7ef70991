// SPDX-License-Identifier: MIT
// transport/rdma_fabric_port.cc — see rdma_fabric_port.h.
#include "transport/rdma_fabric_port.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/check.h"
#include "transport/rdma_fabric.h"

namespace mk {
namespace {

void check_settings(const RdmaSettings& rdma) {
  constexpr int kMostQueues = 64;
  check_arg(rdma.queues >= 1 && rdma.queues <= kMostQueues, "the RDMA fabric's queues are {}; it must be 1 to {}",
            rdma.queues, kMostQueues);
  check_arg(rdma.depth >= 0 && rdma.depth <= RdmaSettings::kMostDepth, "queue_depth is {}; it must be 0 (chosen) to {}",
            rdma.depth, RdmaSettings::kMostDepth);
  check_arg(rdma.traffic_class >= 0 && rdma.traffic_class <= 255, "traffic_class is {}; it must be 0 to 255",
            rdma.traffic_class);
  check_arg(rdma.service_level >= 0 && rdma.service_level <= 15, "service_level is {}; it must be 0 to 15",
            rdma.service_level);
  check_arg(rdma.timeout >= 1 && rdma.timeout <= 31, "the RDMA timeout is {}; it must be 1 to 31", rdma.timeout);
  check_arg(rdma.retries >= 0 && rdma.retries <= 7, "the RDMA retries are {}; it must be 0 to 7", rdma.retries);
}

// No name: the first that is active.
std::vector<std::string> names_of(const RdmaSettings& rdma) {
  return rdma.devices.empty() ? std::vector<std::string>(1) : rdma.devices;
}

void check_most_bytes(const RdmaKind& kind, const RdmaDevice& device) {
  if (kind.most_bytes(device) != 0) return;
  throw Error(ErrorCode::kUnavailable,
              fmt::format("{} of the {} device {} is 0, so it can write nothing into a peer's memory; it must be at "
                          "least 1 byte",
                          kind.most_bytes_name, kind.name, device.name()));
}

}  // namespace

RdmaFabricPort::RdmaFabricPort(const RdmaKind& kind, const PortSettings& settings, const WindowRegistry& windows)
    : kind_(kind),
      settings_(settings),
      windows_(windows),
      keys_(devices_, windows, settings.rank, settings.rdma.ordering, settings.mover) {
  check_settings(settings.rdma);
  open_devices();
  make_lanes();
}

void RdmaFabricPort::open_devices() {
  for (const std::string& name : names_of(settings_.rdma)) {
    devices_.push_back(std::make_unique<RdmaDevice>(name, settings_.rdma, kind_.serves));
    check_most_bytes(kind_, *devices_.back());
  }
  const int num_queues = settings_.rdma.queues * std::max(settings_.world.nodes - 1, 1);
  if (settings_.rdma.depth == 0) settings_.rdma.depth = choose_depth(num_queues);
  const RdmaDepths depths = RdmaLane::depths(settings_.rdma.depth);
  for (const auto& device : devices_) {
    const int messages = device->attributes().max_qp_wr;
    check_arg(settings_.rdma.depth <= RdmaLane::most_depth(messages),
              "queue_depth is {}; a queue pair of {} holds {} messages, so it must be at most {}", settings_.rdma.depth,
              device->name(), messages, RdmaLane::most_depth(messages));
    device->make_cq(num_queues * (depths.sends + depths.receives));
  }
}

// What all devices have room for, in queue pairs and in their completion queues.
int RdmaFabricPort::choose_depth(int num_queues) const {
  int depth = RdmaSettings::kUsualDepth;
  for (const auto& device : devices_) {
    const ibv_device_attr& most = device->attributes();
    const int per_queue = most.max_cqe / num_queues - RdmaLane::kReserve;
    depth = std::min({depth, RdmaLane::most_depth(most.max_qp_wr), per_queue / 3});  // see RdmaLane::depths
    if (depth < RdmaSettings::kLeastDepth) {
      const RdmaDepths least = RdmaLane::depths(RdmaSettings::kLeastDepth);
      throw Error(ErrorCode::kUnavailable,
                  fmt::format("a queue pair of {} holds {} messages, and a completion queue {} completions of {} queue "
                              "pairs; at least {} messages and {} completions are needed",
                              device->name(), most.max_qp_wr, most.max_cqe, num_queues,
                              std::max(least.sends, least.receives), num_queues * (least.sends + least.receives)));
    }
  }
  return depth;
}

void RdmaFabricPort::make_lanes() {
  const WorldShape& world = settings_.world;
  const int num_devices = static_cast<int>(devices_.size());
  address_ = {kind_.name, world.nodes, num_devices, settings_.rdma.queues, {}};
  for (int node = 0; node < world.nodes; ++node) {
    for (int device = 0; device < num_devices; ++device) {
      for (int queue = 0; queue < settings_.rdma.queues; ++queue) {
        RdmaQueueAddress& entry = address_.entries.emplace_back();
        if (node == world.node_of(settings_.rank)) continue;
        const int depth = settings_.rdma.depth;
        auto made = kind_.make_queue(*devices_[device], settings_.rdma, RdmaLane::depths(depth));
        lanes_.push_back(std::make_unique<RdmaLane>(std::move(made), device, depth));
        entry = lanes_.back()->queue().address();
        entry.depth = static_cast<uint16_t>(depth);
      }
    }
  }
}

uint64_t RdmaFabricPort::most_bytes() const {
  uint64_t most = std::numeric_limits<uint32_t>::max();  // a message's length has 32 bits
  for (const auto& device : devices_) most = std::min(most, kind_.most_bytes(*device));
  return settings_.rdma.most_bytes == 0 ? most : std::min(most, settings_.rdma.most_bytes);
}

std::unique_ptr<Fabric> RdmaFabricPort::connect(const std::vector<std::string>& addresses) {
  const WorldShape& world = settings_.world;
  const int rank = settings_.rank;
  check_arg(static_cast<int>(addresses.size()) == world.size(), "there are {} addresses for {} ranks", addresses.size(),
            world.size());
  check_arg(world.nodes == 1 || !lanes_.empty(), "the {} port of rank {} was connected before", kind_.name, rank);
  std::vector<RdmaFabric::Peer> peers;
  auto lane = lanes_.begin();
  for (int node = 0; node < world.nodes; ++node) {
    const int peer = world.rank_at(node, world.local_of(rank));
    if (peer == rank) continue;
    const RdmaAddress theirs = decode_address(addresses[peer], peer, address_);
    std::vector<RdmaLane*> to_peer;
    for (int device = 0; device < theirs.devices; ++device) {
      for (int queue = 0; queue < theirs.queues; ++queue, ++lane) {
        const RdmaQueueAddress& entry = theirs.at(world.node_of(rank), device, queue);
        (*lane)->queue().connect(entry);
        (*lane)->limit(std::max<int>(entry.depth, 1));
        to_peer.push_back(lane->get());
      }
    }
    peers.emplace_back(RdmaSender(rank, peer, std::move(to_peer), settings_.rdma, most_bytes()),
                       RdmaReceiver(rank, peer));
  }
  return std::make_unique<RdmaFabric>(settings_, windows_, devices_, keys_, std::move(lanes_), std::move(peers));
}

std::string RdmaFabricPort::describe() const {
  std::string text;
  for (const auto& device : devices_) text += (text.empty() ? "" : "; ") + device->describe();
  const std::string memory = keys_.describe();
  return memory.empty() ? text : text + "; windows: " + memory;
}

std::string rdma_reach(const RdmaKind& kind, const PortSettings& settings, std::byte* memory, uint64_t bytes) {
  if (const std::string trouble = settings.mover->why_not_settled(); !trouble.empty()) {
    throw Error(ErrorCode::kUnavailable, trouble);
  }
  std::set<std::string> ways;
  for (const std::string& name : names_of(settings.rdma)) {
    const RdmaDevice device(name, settings.rdma, kind.serves);
    ways.insert(name_of(register_memory(device, memory, bytes, settings.rdma.ordering, *settings.mover).way));
  }
  return fmt::format("{}", fmt::join(ways, ", "));
}

// A device that is there may be unplugged, or unable to do what its queue pairs must: what opening a port needs is
// tried.
std::string why_no_rdma(const RdmaKind& kind, const char* what) {
  if (rdma_device_names(kind.serves).empty())
    return fmt::format("this machine has no {} (ibv_devices lists none)", what);
  try {
    RdmaDevice device("", {}, kind.serves);
    check_most_bytes(kind, device);
    device.make_cq(2);
    kind.make_queue(device, {}, {.sends = 1, .receives = 1});
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace mk
