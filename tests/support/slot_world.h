// SPDX-License-Identifier: MIT
// tests/support/slot_world.h — ranks with far windows in one process, whose slots a fabric of the test's own carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/atomics.h"
#include "tests/support/fabric_world.h"
#include "tests/support/host_mover.h"
#include "transport/loopback.h"
#include "transport/staged_fabric.h"

namespace mk::test {

struct SlotWorldOptions {
  int nodes = 2;
  uint64_t window_bytes = 4096;
  StagedSettings staged{.slots = 3, .slot_bytes = 1000, .queue_puts = 8};
  std::chrono::milliseconds deadline{20'000};
  uint64_t seed = 1;

  // What is around the fabric that carries a rank's slots.
  std::function<std::unique_ptr<Fabric>(int rank, std::unique_ptr<Fabric> inner)> wrap = nullptr;
};

class SlotWorld {
 public:
  static constexpr uint32_t kSignals = 512;

  explicit SlotWorld(const SlotWorldOptions& options) : layout_(options.nodes, options.staged) {
    PortSettings settings;
    settings.world = {options.nodes, 1};
    settings.staged = options.staged;
    settings.deadline = options.deadline;
    std::vector<std::byte*> bases;
    for (int rank = 0; rank < options.nodes; ++rank) {
      Rank& own = ranks_.emplace_back(options, rank, layout_);
      own.mover.pin(own.slots.data(), layout_.bytes());
      bases.push_back(own.slots.data());
    }
    slot_window_ = slots_.add(bases, layout_.bytes());
    for (int rank = 0; rank < options.nodes; ++rank) {
      settings.rank = rank;
      Rank& own = ranks_[rank];
      std::unique_ptr<Fabric> inner = std::make_unique<LoopbackFabric>(slots_, rank);
      if (options.wrap) inner = options.wrap(rank, std::move(inner));
      own.fabric = std::make_unique<StagedFabric>(settings, own.windows,
                                                  StagedFabric::Slots{layout_, own.slots.data(), slot_window_},
                                                  own.mover, std::move(inner));
    }
  }
  ~SlotWorld() {
    for (Rank& rank : ranks_) {
      rank.fabric.reset();
      rank.mover.unpin(rank.slots.data());
    }
  }

  const StagedLayout& layout() const { return layout_; }
  std::byte* slots(int rank) { return ranks_[rank].slots.data(); }
  Fabric& fabric(int rank) { return *ranks_[rank].fabric; }
  void destroy_fabric(int rank) { ranks_[rank].fabric.reset(); }
  HostMover& mover(int rank) { return ranks_[rank].mover; }
  std::byte* data(int rank) { return ranks_[rank].data.data(); }
  uint64_t seen(int rank, uint32_t index) const { return HostAtomics::load_acquire(&ranks_[rank].signals[index]); }
  std::vector<uint64_t>& completed(int rank) { return ranks_[rank].completed; }

  Command command(int to, uint64_t from_offset, uint64_t to_offset, uint64_t bytes, uint32_t signal = 0) const {
    return {from_offset, to_offset, bytes, 0, 0, 1, signal, 1, static_cast<uint32_t>(to), 0, 0};
  }

  PutResult poll(int rank) { return ranks_[rank].fabric->poll(ranks_[rank].completed); }
  bool run_until(const std::function<bool()>& holds) {
    return busily([&] {
      if (holds()) return true;
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) poll(rank);
      return false;
    });
  }

 private:
  struct Rank {
    Rank(const SlotWorldOptions& options, int rank, const StagedLayout& layout)
        : data(options.window_bytes),
          signals(kSignals),
          far_data(data.data(), data.size()),
          far_signals(reinterpret_cast<std::byte*>(signals.data()), kSignals * sizeof(uint64_t)),
          mover(options.seed * 100 + rank, {&far_data, &far_signals}),
          slots(layout.bytes()) {
      windows.add(at_own(options.nodes, rank, far_data.data()), data.size());
      windows.add(at_own(options.nodes, rank, far_signals.data()), kSignals * sizeof(uint64_t));
    }
    static std::vector<std::byte*> at_own(int nodes, int rank, std::byte* base) {
      std::vector<std::byte*> bases(nodes);
      bases[rank] = base;
      return bases;
    }

    std::vector<std::byte> data;
    std::vector<uint64_t> signals;
    FarMemory far_data;
    FarMemory far_signals;
    HostMover mover;
    std::vector<std::byte> slots;
    WindowRegistry windows;
    std::unique_ptr<Fabric> fabric;
    std::vector<uint64_t> completed;
  };

  StagedLayout layout_;
  WindowRegistry slots_;
  uint32_t slot_window_ = 0;
  std::deque<Rank> ranks_;
};

}  // namespace mk::test
