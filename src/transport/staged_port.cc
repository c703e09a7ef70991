// SPDX-License-Identifier: MIT
// transport/staged_port.cc — see staged_port.h.
#include "transport/staged_port.h"

#include <utility>

#include "base/check.h"
#include "transport/fabric_kinds.h"
#include "transport/staged_address.h"
#include "transport/staged_fabric.h"

namespace mk {
namespace {

StagedLayout layout_of(const PortSettings& settings) {
  constexpr int kMostSlots = 1024;
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  const StagedSettings& staged = settings.staged;
  check_arg(settings.world.nodes >= 1, "a world has {} nodes; it must have at least 1", settings.world.nodes);
  check_arg(staged.slots >= 1 && staged.slots <= kMostSlots, "the staged fabric's slots are {}; it must be 1 to {}",
            staged.slots, kMostSlots);
  check_arg(staged.slot_bytes >= 1 && staged.slot_bytes <= kMostBytes,
            "the staged fabric's slot_bytes is {}; it must be 1 to {}", staged.slot_bytes, kMostBytes);
  check_arg(staged.queue_puts >= 1, "the staged fabric's queue_puts is {}; it must be at least 1", staged.queue_puts);
  return {settings.world.nodes, staged};
}

MappedBy mapped_by(std::string_view kind) {
  check_arg(fabric_kind(kind).between_processes, "the fabric {} cannot go through host memory: it needs none", kind);
  return fabric_kind(kind).maps_windows ? MappedBy::kPeers : MappedBy::kOwner;
}

// Only the own one is here.
template <class T>
std::vector<T> at_rank(const PortSettings& settings, T own) {
  std::vector<T> all(static_cast<size_t>(settings.world.size()));
  all.at(static_cast<size_t>(settings.rank)) = std::move(own);
  return all;
}

}  // namespace

StagedPort::StagedPort(std::string_view kind, const PortSettings& settings, const WindowRegistry& windows,
                       std::unique_ptr<Mover> mover)
    : settings_(settings),
      windows_(windows),
      layout_(layout_of(settings)),
      mover_(std::move(mover)),
      memory_(layout_.bytes(), mapped_by(kind), *mover_) {
  window_ = slots_.add(at_rank(settings, memory_.data()), layout_.bytes(), at_rank(settings, memory_.handle()));
  inner_ = open_port(kind, settings, slots_);
  address_ = encode({settings.staged, inner_->address(), inner_->share_window(window_)});
}

std::unique_ptr<Fabric> StagedPort::connect(const std::vector<std::string>& addresses) {
  const WorldShape& world = settings_.world;
  check_arg(static_cast<int>(addresses.size()) == world.size(), "there are {} addresses for {} ranks", addresses.size(),
            world.size());
  std::vector<std::string> inner(addresses.size());
  for (int node = 0; node < world.nodes; ++node) {
    const int peer = world.rank_at(node, world.local_of(settings_.rank));
    if (peer == settings_.rank) continue;
    StagedAddress theirs = decode_address(addresses[peer], peer, settings_.staged);
    learn(peer, theirs.key);
    inner[peer] = std::move(theirs.inner);
  }
  std::unique_ptr<Fabric> connected = inner_->connect(inner);
  memory_.hide();  // a fabric that maps the slots of others is connected when all have
  return std::make_unique<StagedFabric>(settings_, windows_, StagedFabric::Slots{layout_, memory_.data(), window_},
                                        *mover_, std::move(connected));
}

void StagedPort::learn(int peer, const std::string& key) {
  try {
    inner_->learn_window(window_, peer, key);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("rank {} cannot reach the slots of rank {}: {}", settings_.rank, peer, error.what()));
  }
}

std::string StagedPort::describe() const {
  const std::string inner = inner_->describe();
  return inner + (inner.empty() ? "" : "; ") + "windows by way of host memory";
}

}  // namespace mk
