// SPDX-License-Identifier: MIT
// target/sm90/tile_queue.cuh — tiles that only the load job of a block knows, handed to its other jobs.
//
// For operators whose tiles follow from what other ranks send: the load job finds out and tells.  Each job that takes
// sees every tile, in order.  The last entry is no tile: it says that there are no more.
#pragma once

#include <cstdint>

#include "target/sm90/pipeline.cuh"

namespace mk::sm90 {

template <class Tile, int kSlots = 4>
struct TileQueue {
  static constexpr int kNumSlots = kSlots;

  struct Entry {
    Tile tile;
    bool is_tile;
  };
  Entry entries[kSlots];
  uint64_t full[kSlots];
  uint64_t empty[kSlots];

  // One lane, before begin_jobs.  `takers` threads take every entry.
  __device__ void prepare(int takers) {
    for (uint64_t& barrier : full) ptx::mbarrier_init(&barrier, 1);
    for (uint64_t& barrier : empty) ptx::mbarrier_init(&barrier, takers);
    barriers_before_use();
  }
};

// One thread puts entries in.
template <class Tile, int kSlots = 4>
class TileGiver {
 public:
  __device__ explicit TileGiver(TileQueue<Tile, kSlots>& queue) : queue_(queue) {}

  __device__ void give(const Tile& tile) { put({tile, true}); }
  __device__ void end() { put({Tile{}, false}); }

  // The same in two steps, for who has no registers to make a tile in: the place of the next one, when it is free, as
  // often as asked for; and that it is made.
  __device__ bool has_place() const {  // or will have within a microsecond or so
    return ptx::mbarrier_try_wait_parity(&queue_.empty[cursor_.slot], cursor_.phase ^ 1);
  }
  __device__ Tile& place() {
    wait_phase(&queue_.empty[cursor_.slot], cursor_.phase ^ 1);
    return queue_.entries[cursor_.slot].tile;
  }
  __device__ void give_place() {
    queue_.entries[cursor_.slot].is_tile = true;
    ptx::mbarrier_arrive(&queue_.full[cursor_.slot]);
    ++cursor_;
  }

 private:
  __device__ void put(const typename TileQueue<Tile, kSlots>::Entry& entry) {
    wait_phase(&queue_.empty[cursor_.slot], cursor_.phase ^ 1);
    queue_.entries[cursor_.slot] = entry;
    ptx::mbarrier_arrive(&queue_.full[cursor_.slot]);  // releases the entry; pairs with take
    ++cursor_;
  }

  TileQueue<Tile, kSlots>& queue_;
  Cursor<kSlots> cursor_;
};

template <class Tile, int kSlots = 4>
class TileTaker {
 public:
  __device__ explicit TileTaker(TileQueue<Tile, kSlots>& queue) : queue_(queue) {}

  // False: there are no more.
  __device__ bool take(Tile& tile) {
    const Tile* const next = look();
    if (next != nullptr) tile = *next;
    free();
    return next != nullptr;
  }

  // The same in two steps, for who has no registers to keep a tile in: it stays where it is until it is freed.  Null:
  // there are no more; that is freed as well.
  __device__ const Tile* look() {
    wait_phase(&queue_.full[cursor_.slot], cursor_.phase);
    const auto& entry = queue_.entries[cursor_.slot];
    return entry.is_tile ? &entry.tile : nullptr;
  }
  __device__ void free() {
    ptx::mbarrier_arrive(&queue_.empty[cursor_.slot]);
    ++cursor_;
  }
  // Whether look() would return at once.
  __device__ bool can_look() const { return ptx::mbarrier_test_wait_parity(&queue_.full[cursor_.slot], cursor_.phase); }

 private:
  TileQueue<Tile, kSlots>& queue_;
  Cursor<kSlots> cursor_;
};

}  // namespace mk::sm90
