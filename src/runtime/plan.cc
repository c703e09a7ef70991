// SPDX-License-Identifier: MIT
// runtime/plan.cc — allocates a plan's memory on every rank and wires the views to it.
#include "runtime/plan.h"

#include <numeric>
#include <utility>

#include "base/atomics.h"

namespace mk::runtime {

uint64_t workspace_bytes(const PlanSpec& spec) {
  return std::accumulate(spec.window_bytes.begin(), spec.window_bytes.end(),
                         uint64_t{spec.num_signals} * sizeof(uint64_t));
}

Plan::Plan(uint32_t id, PlanSpec spec, const WorldShape& world, Device& device, WindowRegistry& windows,
           const std::vector<RingView>& rings, uint64_t* stop, uint64_t timeout_ns)
    : spec_(std::move(spec)), device_(device) {
  const auto keep = [&](uint64_t bytes, Buffer::Kind kind = Buffer::Kind::kWorkers) {
    return buffers_.emplace_back(device, bytes, kind).template as<std::byte>();
  };

  std::vector<uint64_t> slot_bytes = {0, uint64_t{spec_.num_signals} * sizeof(uint64_t)};
  slot_bytes.insert(slot_bytes.end(), spec_.window_bytes.begin(), spec_.window_bytes.end());
  const size_t num_slots = slot_bytes.size();

  std::vector<uint32_t> ids(num_slots, UINT32_MAX);  // the input has no number: no put may start there
  windows_.assign(num_slots, std::vector<std::byte*>(world.size()));
  for (size_t slot = kSignalWindow; slot < num_slots; ++slot) {
    for (std::byte*& base : windows_[slot]) base = keep(slot_bytes[slot]);
    ids[slot] = windows.add(windows_[slot], slot_bytes[slot]);
  }

  auto* const id_table = reinterpret_cast<uint32_t*>(keep(num_slots * sizeof(uint32_t)));
  device.upload(id_table, ids.data(), num_slots * sizeof(uint32_t));

  std::vector<std::byte**> node_tables;
  for (int node = 0; node < world.nodes; ++node) {
    std::vector<std::byte*> table;
    for (const auto& of_rank : windows_) {
      const auto first = of_rank.begin() + world.rank_at(node, 0);
      table.insert(table.end(), first, first + world.ranks);
    }
    node_tables.push_back(reinterpret_cast<std::byte**>(keep(table.size() * sizeof(std::byte*))));
    device.upload(node_tables.back(), table.data(), table.size() * sizeof(std::byte*));
  }

  for (int rank = 0; rank < world.size(); ++rank) {
    auto* const counters = reinterpret_cast<Counters*>(keep(sizeof(Counters)));
    RankView view;
    view.world = world;
    view.rank = rank;
    view.workers = spec_.workers;
    view.plan = id;
    view.windows = {node_tables[world.node_of(rank)], id_table, nullptr, world.ranks};
    view.ring = rings[rank];
    view.exits = &counters->exits;
    view.settlers = &counters->settlers;
    view.nvlink_bytes = &counters->nvlink_bytes;
    view.stop = stop;
    view.faults = reinterpret_cast<FaultRecord*>(keep(spec_.workers * sizeof(FaultRecord), Buffer::Kind::kShared));
    view.timeout_ns = timeout_ns;
    views_.push_back(view);
  }
}

std::vector<FaultRecord> Plan::faults() const {
  std::vector<FaultRecord> sealed;
  for (const RankView& view : views_) {
    for (int worker = 0; worker < view.workers; ++worker) {
      const FaultRecord& record = view.faults[worker];
      if (HostAtomics::load_acquire(&record.sealed) != 0) sealed.push_back(record);  // pairs with the worker's seal
    }
  }
  return sealed;
}

uint64_t Plan::nvlink_bytes(int rank) const {
  uint64_t bytes = 0;
  device_.download(&bytes, views_[rank].nvlink_bytes, sizeof(bytes));
  return bytes;
}

}  // namespace mk::runtime
