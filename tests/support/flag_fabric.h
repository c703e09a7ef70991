// SPDX-License-Identifier: MIT
// tests/support/flag_fabric.h — a fabric with a planted mistake: it writes the bytes, then a flag with another write.
//
// The receiver looks at the flag in its memory and assumes that earlier writes have landed.  That is wrong where
// messages overtake each other; tests use it to show that the software NIC finds such a mistake.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/atomics.h"
#include "tests/support/fabric_world.h"
#include "transport/rdma_keys.h"
#include "transport/rdma_lane.h"

namespace mk::test {

using QueueMaker = std::unique_ptr<RdmaQueue> (*)(const RdmaDevice&, const RdmaSettings&, const RdmaDepths&);

// One end.  Each signal is paid once, with 1.
class FlagFabric : public Fabric {
 public:
  static constexpr int kDepth = 32;

  FlagFabric(const std::string& device, QueueMaker make_queue, MemoryOrdering ordering, const WindowRegistry& windows,
             int rank)
      : windows_(windows), rank_(rank), keys_(devices_, windows, rank, ordering) {
    const RdmaDepths depths = RdmaLane::depths(kDepth);
    devices_.push_back(std::make_unique<RdmaDevice>(device, settings_, [](ibv_device*) { return true; }));
    devices_[0]->make_cq(depths.sends + depths.receives);
    one_memory_ = register_memory(*devices_[0], reinterpret_cast<std::byte*>(&one_), sizeof(one_), ordering);
    lane_ = std::make_unique<RdmaLane>(make_queue(*devices_[0], settings_, depths), 0, kDepth);
  }

  RdmaKeys& keys() { return keys_; }
  RdmaQueue& queue() { return lane_->queue(); }

  PutResult put(const Command& c, uint64_t) override {
    if (lane_->room() < 2) return PutResult::kFull;
    const RdmaKeys::Remote data = keys_.remote(c.to_window, c.to_rank);
    const RdmaKeys::Remote signals = keys_.remote(c.signal_window, c.to_rank);
    RdmaPost bytes;
    bytes.bytes = static_cast<uint32_t>(c.bytes);
    bytes.from = windows_.find(c.from_window, rank_, c.from_offset, c.bytes);
    bytes.lkey = keys_.local_keys(c.from_window)[0];
    bytes.rkey = data.keys[0];
    bytes.to = data.address + c.to_offset;
    RdmaPost flag;
    flag.bytes = sizeof(one_);
    flag.from = reinterpret_cast<const std::byte*>(&one_);
    flag.lkey = one_memory_.lkey();
    flag.rkey = signals.keys[0];
    flag.to = signals.address + c.signal_index * sizeof(uint64_t);
    lane_->write(bytes, RdmaLane::kNoPut);
    lane_->write(flag, RdmaLane::kNoPut);
    return PutResult::kSent;
  }

  PutResult poll(std::vector<uint64_t>&) override {
    lane_->flush();
    std::array<ibv_wc, 32> completions;
    std::vector<uint32_t> puts;
    const int num = ibv_poll_cq(devices_[0]->cq(), completions.size(), completions.data());
    for (int i = 0; i < num; ++i) {
      if (completions[i].status != IBV_WC_SUCCESS) return PutResult::kFailed;
      if ((completions[i].wr_id & RdmaLane::kReceiveBit) != 0) {
        lane_->take_back(completions[i].wr_id);  // the mistake: this is what tells that bytes have landed
      } else {
        lane_->complete(completions[i].wr_id, puts);
      }
    }
    lane_->replenish();
    return num < 0 ? PutResult::kFailed : PutResult::kSent;
  }

  std::string failure() const override { return ""; }

 private:
  const WindowRegistry& windows_;
  int rank_;
  RdmaSettings settings_;
  RdmaDevices devices_;
  RdmaKeys keys_;
  uint64_t one_ = 1;
  RdmaMemory one_memory_;
  std::unique_ptr<RdmaLane> lane_;
};

// Two ranks of it, with the windows of a FabricWorld.
class FlagWorld {
 public:
  FlagWorld(const std::string& device, QueueMaker make_queue, MemoryOrdering ordering, uint64_t window_bytes)
      : memory_{SparseMemory(window_bytes), SparseMemory(window_bytes)} {
    for (const int rank : {0, 1}) {
      const auto bases = [&](auto* own) {
        std::vector<std::byte*> all(2);
        all[rank] = reinterpret_cast<std::byte*>(own);
        return all;
      };
      registries_[rank].add(bases(memory_[rank].data()), window_bytes);
      registries_[rank].add(bases(signals_[rank].data()), sizeof(signals_[rank]));
      ends_[rank] = std::make_unique<FlagFabric>(device, make_queue, ordering, registries_[rank], rank);
    }
    for (const int rank : {0, 1}) {
      for (const uint32_t window : {0u, 1u}) {
        ends_[1 - rank]->keys().learn(window, rank, ends_[rank]->keys().share(window));
      }
      ends_[rank]->queue().connect(ends_[1 - rank]->queue().address());
    }
  }

  Fabric& fabric(int rank) { return *ends_[rank]; }
  std::byte* data(int rank) const { return memory_[rank].data(); }
  uint64_t seen(int rank, uint32_t index) const { return HostAtomics::load_acquire(&signals_[rank][index]); }
  Command command(int to, uint64_t from_offset, uint64_t to_offset, uint64_t bytes, uint32_t signal) const {
    return {from_offset, to_offset, bytes, 0, 0, 1, signal, 1, static_cast<uint32_t>(to), 0, 0};
  }

 private:
  std::array<SparseMemory, 2> memory_;
  std::array<std::array<uint64_t, FabricWorld::kSignals>, 2> signals_{};
  std::array<WindowRegistry, 2> registries_;
  std::array<std::unique_ptr<FlagFabric>, 2> ends_;
};

// Puts blocks, looks at each as soon as its signal is there, and counts those that were not all there.  -1 if a
// signal never came.
template <class AnyWorld>
int blocks_not_there(AnyWorld& world, uint64_t num_blocks, uint64_t block_bytes) {
  fill(world.data(0), num_blocks * block_bytes, 1);
  std::vector<uint64_t> completed;
  std::vector<bool> looked(num_blocks);
  uint64_t sent = 0, num_looked = 0;
  int wrong = 0;
  const bool done = busily([&] {
    const auto i = static_cast<uint32_t>(sent);
    const uint64_t at = sent * block_bytes;
    if (sent < num_blocks && world.fabric(0).put(world.command(1, at, at, block_bytes, i), sent) == PutResult::kSent) {
      ++sent;
    }
    for (const int rank : {0, 1}) world.fabric(rank).poll(completed);
    for (uint64_t block = 0; block < sent; ++block) {
      if (looked[block] || world.seen(1, static_cast<uint32_t>(block)) == 0) continue;
      looked[block] = true;
      ++num_looked;
      const uint64_t offset = block * block_bytes;
      wrong += std::memcmp(world.data(1) + offset, world.data(0) + offset, block_bytes) != 0 ? 1 : 0;
    }
    return num_looked == num_blocks;
  });
  return done ? wrong : -1;
}

}  // namespace mk::test
