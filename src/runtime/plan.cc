// SPDX-License-Identifier: MIT
// runtime/plan.cc — allocates a plan's memory on every rank and wires the views to it.
#include "runtime/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/atomics.h"
#include "mkernel/error.h"

namespace mk::runtime {

uint64_t workspace_bytes(const PlanSpec& spec) {
  return std::accumulate(spec.window_bytes.begin(), spec.window_bytes.end(),
                         uint64_t{spec.num_signals} * sizeof(uint64_t));
}

Plan::Plan(uint32_t id, PlanSpec spec, const PlanSite& site) : id_(id), spec_(std::move(spec)), device_(site.device) {
  slot_bytes_.assign(kSignalWindow, 0);  // inputs are the caller's memory
  slot_bytes_.push_back(uint64_t{spec_.num_signals} * sizeof(uint64_t));
  slot_bytes_.insert(slot_bytes_.end(), spec_.window_bytes.begin(), spec_.window_bytes.end());
  windows_.assign(slot_bytes_.size(), std::vector<std::byte*>(site.world.size()));
  allocate_windows(site);
}

void Plan::open(const PlanSite& site) {
  const WorldShape& world = site.world;
  const auto keep = [&](uint64_t bytes, Buffer::Kind kind = Buffer::Kind::kWorkers) {
    return buffers_.emplace_back(device_, bytes, kind).template as<std::byte>();
  };

  const size_t num_slots = slot_bytes_.size();
  if (site.bootstrap != nullptr) open_windows_of_peers(site);

  std::vector<uint32_t> ids(num_slots, UINT32_MAX);  // inputs have no number: no put may start there
  for (size_t slot = kSignalWindow; slot < num_slots; ++slot) {
    ids[slot] = site.windows.add(windows_[slot], slot_bytes_[slot], handles_of(site, slot));
    if (site.rails != nullptr) site.rails->share_window(ids[slot]);
  }
  forget_handles(site);
  auto* const id_table = reinterpret_cast<uint32_t*>(keep(num_slots * sizeof(uint32_t)));
  device_.upload(id_table, ids.data(), num_slots * sizeof(uint32_t));

  std::map<int, std::byte**> node_tables;
  views_.resize(world.size());
  for (int rank = site.members.first; rank < site.members.end(); ++rank) {
    std::byte**& node_table = node_tables[world.node_of(rank)];
    if (node_table == nullptr) {
      std::vector<std::byte*> table;
      for (const auto& of_rank : windows_) {
        const auto first = of_rank.begin() + world.rank_at(world.node_of(rank), 0);
        table.insert(table.end(), first, first + world.ranks);
      }
      node_table = reinterpret_cast<std::byte**>(keep(table.size() * sizeof(std::byte*)));
      device_.upload(node_table, table.data(), table.size() * sizeof(std::byte*));
    }
    auto* const counters = reinterpret_cast<Counters*>(keep(sizeof(Counters)));
    RankView& view = views_[rank];
    view.world = world;
    view.rank = rank;
    view.workers = spec_.workers;
    view.plan = id_;
    view.windows = {node_table, id_table, world.ranks};
    view.ring = site.rings[rank];
    view.exits = &counters->exits;
    view.target_words = counters->target_words;
    view.nvlink_bytes = &counters->nvlink_bytes;
    view.stop = site.stop;
    const uint64_t records = static_cast<uint64_t>(spec_.workers) * kRecordsPerWorker;
    view.faults = reinterpret_cast<FaultRecord*>(keep(records * sizeof(FaultRecord), Buffer::Kind::kShared));
    view.timeout_ns = site.timeout_ns;
  }
}

void Plan::allocate_windows(const PlanSite& site) {
  for (size_t slot = kSignalWindow; slot < slot_bytes_.size(); ++slot) {
    for (int rank = site.members.first; rank < site.members.end(); ++rank) {
      memory_.push_back(device_.allocate_window(slot_bytes_[slot]));
      windows_[slot][rank] = memory_.back().data.get();
    }
  }
}

// A process has one rank here, so its handles are those of the slots in order.
void Plan::open_windows_of_peers(const PlanSite& site) {
  std::vector<std::string> own;
  for (const WindowMemory& memory : memory_) own.push_back(memory.handle);
  const std::vector<std::string> all =
      site.bootstrap->all_gather(fmt::format("{}", fmt::join(own, " ")), "a plan's windows");
  const int node = site.world.node_of(site.members.first);
  for (int local = 0; local < site.world.ranks; ++local) {
    const int peer = site.world.rank_at(node, local);
    if (site.members.has(peer)) continue;
    std::istringstream handles(all[peer]);
    for (size_t slot = kSignalWindow; slot < slot_bytes_.size(); ++slot) {
      std::string handle;
      handles >> handle;
      try {
        of_peers_.push_back(device_.open_window(handle, slot_bytes_[slot]));
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("rank {} does not find the windows of rank {} on this machine, though {} "
                                              "ranks of a node were asked for: {}",
                                              site.members.first, peer, site.world.ranks, error.what()));
      }
      windows_[slot][peer] = of_peers_.back().data.get();
    }
  }
}

// By rank, of one slot; empty for ranks that are not here, and for all if fabrics do not reach the windows.
std::vector<std::string> Plan::handles_of(const PlanSite& site, size_t slot) const {
  std::vector<std::string> handles(site.world.size());
  if (site.rails != nullptr && site.rails->are_staged()) return handles;
  const size_t first = (slot - kSignalWindow) * site.members.count;
  for (int i = 0; i < site.members.count; ++i) handles[site.members.first + i] = memory_[first + i].handle;
  return handles;
}

// Nobody opens the windows of the ranks that are here any more.
void Plan::forget_handles(const PlanSite& site) const {
  if (site.bootstrap != nullptr) site.bootstrap->all_gather("", "a plan's windows to be open everywhere");
  for (const WindowMemory& memory : memory_) {
    if (!memory.handle.empty()) device_.forget_window(memory.handle);
  }
}

std::vector<FaultRecord> Plan::faults() const {
  std::vector<FaultRecord> sealed;
  for (const RankView& view : views_) {
    if (view.faults == nullptr) continue;  // not here
    for (int i = 0; i < view.workers * kRecordsPerWorker; ++i) {
      const FaultRecord& record = view.faults[i];
      const bool is_sealed = HostAtomics::load_acquire(&record.sealed) != 0;  // pairs with the worker's seal
      if (is_sealed && record.kind != FaultKind::kRefused) sealed.push_back(record);
    }
  }
  return sealed;
}

std::vector<FaultRecord> Plan::take_refusals() {
  std::vector<FaultRecord> refused;
  for (const RankView& view : views_) {
    if (view.faults == nullptr) continue;  // not here
    for (int i = 0; i < view.workers * kRecordsPerWorker; ++i) {
      FaultRecord& record = view.faults[i];
      if (HostAtomics::load_acquire(&record.sealed) == 0 || record.kind != FaultKind::kRefused) continue;
      refused.push_back(record);
      HostAtomics::store_release(&record.sealed, 0);
    }
  }
  return refused;
}

uint64_t Plan::nvlink_bytes(int rank) const {
  uint64_t bytes = 0;
  device_.download(&bytes, views_[rank].nvlink_bytes, sizeof(bytes));
  return bytes;
}

}  // namespace mk::runtime
