// SPDX-License-Identifier: MIT
// runtime/rails.cc — see rails.h.
#include "runtime/rails.h"

#include <fmt/format.h>

#include <exception>
#include <thread>
#include <utility>

#include "mkernel/error.h"
#include "transport/direct_choice.h"
#include "transport/discovery.h"
#include "transport/fabric_choice.h"
#include "transport/fabric_kinds.h"
#include "transport/nic_choice.h"
#include "transport/staged_port.h"
#include "transport/start_thread.h"

namespace mk::runtime {
namespace {

// Empty where nothing can be known: a NIC that is not the nearest works as well.
Topology known_topology() {
  try {
    return discover_topology();
  } catch (const Error&) {
    return {};
  }
}

// With a piece of memory like that of windows; what works for it works for them, as long as there is room.
DirectTrial try_direct(const FabricKind& kind, const PortSettings& settings, Device& device) {
  constexpr size_t kPiece = 4096;
  if (kind.reach == nullptr) return {"", fmt::format("the fabric {} has no NICs that reach a GPU", kind.name)};
  try {
    const WindowMemory piece = device.allocate_window(kPiece);
    if (!piece.handle.empty()) device.forget_window(piece.handle);
    return {kind.reach(settings, piece.data.get(), kPiece), ""};
  } catch (const Error& error) {
    return {"", error.what()};
  }
}

}  // namespace

Rails::Rails(const WorldShape& shape, const Members& members, const Options& options, Bootstrap* bootstrap,
             Device& device, const WindowRegistry& windows)
    : members_(members), bootstrap_(bootstrap), ends_(members.count) {
  const std::vector<std::string> offers(members.count, fabric_offer(options.net));
  fabric_ = choose_fabric(tell(offers, "the fabrics of all ranks"));
  PortSettings settings;
  settings.world = shape;
  settings.secret = bootstrap != nullptr ? bootstrap->secret() : random_secret();
  settings.deadline = std::chrono::milliseconds(options.timeout_ms);
  settings.rdma.depth = options.queue_depth;
  const std::vector<std::vector<std::string>> nics = choose_nics(shape, options.nics);
  for (int i = 0; i < members.count; ++i) ends_[i].mover = device.make_mover(members.first + i);
  if (ends_.front().mover != nullptr) choose_reach(settings, nics, options, device);
  std::vector<std::string> addresses;
  for (int i = 0; i < members.count; ++i) {
    End& end = ends_[i];
    settings.rank = members.first + i;
    settings.rdma.devices = nics[i];
    if (are_staged_) {
      end.port = std::make_unique<StagedPort>(fabric_, settings, windows, std::move(end.mover));
    } else {
      settings.mover = end.mover.get();
      end.port = open_port(fabric_, settings, windows);
    }
    addresses.push_back(end.port->address());
  }
  connect(tell(addresses, "the addresses of all ranks' fabrics"));
}

// For windows that are a device's memory.
void Rails::choose_reach(PortSettings settings, const std::vector<std::vector<std::string>>& nics,
                         const Options& options, Device& device) {
  std::vector<std::string> mine;
  for (int i = 0; i < members_.count; ++i) {
    settings.rank = members_.first + i;
    settings.rdma.devices = nics[i];
    settings.mover = ends_[i].mover.get();
    const bool is_off = options.gpu_direct == "off";
    const DirectTrial trial = is_off ? DirectTrial{} : try_direct(fabric_kind(fabric_), settings, device);
    mine.push_back(direct_offer(options.gpu_direct, trial));
  }
  const DirectChoice choice = choose_direct(tell(mine, "how the NICs of all ranks reach their GPUs"));
  are_staged_ = !choice.is_direct;
  reach_ = choice.reach;
}

// Of each rank that is here.
std::vector<std::vector<std::string>> Rails::choose_nics(const WorldShape& shape, const std::string& asked) const {
  std::vector<std::vector<std::string>> nics(members_.count);
  const FabricKind& kind = fabric_kind(fabric_);
  if (kind.devices == nullptr) return nics;
  const Topology topology = known_topology();
  const std::vector<std::string> devices = kind.devices();
  std::vector<std::string> mine;
  for (int i = 0; i < members_.count; ++i) {
    mine.push_back(nic_offer(topology, devices, asked, shape.local_of(members_.first + i)));
  }
  const std::vector<std::string> offers = tell(mine, "the NICs of all ranks");
  for (int i = 0; i < members_.count; ++i) nics[i] = mk::choose_nics(offers, members_.first + i);
  return nics;
}

std::vector<std::string> Rails::tell(const std::vector<std::string>& mine, const std::string& what) const {
  return bootstrap_ == nullptr ? mine : bootstrap_->all_gather(mine.front(), what);
}

// Ranks of one rail wait for each other, so each connects in a thread of its own.
void Rails::connect(const std::vector<std::string>& addresses) {
  std::vector<std::exception_ptr> troubles(ends_.size());
  std::exception_ptr not_started;  // why ranks wait in vain, if they do
  std::vector<std::thread> threads;
  threads.reserve(ends_.size());
  for (size_t i = 0; i < ends_.size(); ++i) {
    const auto connect_one = [&, i] {
      try {
        ends_[i].fabric = ends_[i].port->connect(addresses);
      } catch (...) {
        troubles[i] = std::current_exception();
      }
    };
    try {
      const std::string purpose = fmt::format("rank {} to connect its fabric", members_.first + static_cast<int>(i));
      threads.push_back(start_thread(purpose, connect_one));
    } catch (...) {
      not_started = std::current_exception();
      break;  // those that have started give up at the deadline
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (not_started != nullptr) std::rethrow_exception(not_started);
  for (const std::exception_ptr& trouble : troubles) {
    if (trouble != nullptr) std::rethrow_exception(trouble);
  }
}

void Rails::share_window(uint32_t window) {
  std::vector<std::string> mine;
  try {
    for (const End& end : ends_) mine.push_back(end.port->share_window(window));
  } catch (const Error& error) {
    if (ends_.front().mover == nullptr || are_staged_) throw;
    throw Error(error.code(), fmt::format("{}; MKERNEL_GPU_DIRECT=off goes by way of host memory", error.what()));
  }
  const std::vector<std::string> keys = tell(mine, "the keys of a plan's windows");
  for (size_t i = 0; i < ends_.size(); ++i) {
    for (int rank = 0; rank < static_cast<int>(keys.size()); ++rank) {
      if (rank != members_.first + static_cast<int>(i)) ends_[i].port->learn_window(window, rank, keys[rank]);
    }
  }
}

}  // namespace mk::runtime
