// SPDX-License-Identifier: MIT
// bench/nic_warp.cuh — a warp that plays the NIC of its rank, for benchmarks.
//
// A put leaves when those before it have, takes the time its bytes take on the link, and is delivered a
// latency later.  Lane i holds the put whose number is i modulo 32; one lane copies.
//
//   step      which put                     when
//   take      all that are posted           none is left to load, and once more while the last are under way: a
//                                           look over PCIe takes microseconds
//   copy      the oldest not yet copied     piece by piece; loads run ahead, into the puts after it
//   deliver   all that are copied and due   at once: their signals are paid
//   tell      all that are delivered        none is left to copy, or many wait for it: a fence at system scope
//
// What makes the bytes visible where the signal is seen: the worker's release to the ring, the proxy's
// acquire of it and release of `posted`, acquired here; the fence between that and the copy engine's reads;
// the end of its writes, which the copying lane waits for; and the release on the signal.  That one is at the GPU's
// scope, where all ranks of the model are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda/atomic>

#include "base/math.h"
#include "bench/nic_queue.h"
#include "bench/pace.h"
#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/ptx.cuh"

namespace mk::bench {

class NicWarp {
 public:
  // All lanes call everything.  The pieces are prepared and nobody else's.
  __device__ NicWarp(const NicQueue& nic, const sm90::BulkPieces& pieces)
      : nic_(nic),
        lane_(threadIdx.x % kLanes),
        copier_(pieces),
        taken_(nic.words->served),
        loading_(taken_),
        copied_(taken_),
        done_(taken_),
        told_(taken_),
        free_at_(nic.words->free_at) {}

  // Until `left` has reached that and nothing that was taken is undone.  Who leaves has settled its puts, or
  // given up; and all leave, because each of their waits is bounded.
  __device__ void serve(uint64_t until_left) {
    for (;;) {
      if (copied_ == taken_) {
        if (done_ != told_) tell();
        take();
      } else if (loading_ == taken_ && !has_looked_) {
        take();
        has_looked_ = true;
      }
      if (done_ != taken_) {
        if (copied_ != taken_) move_piece();
        deliver();
        if (done_ - told_ >= kMostUntold) tell();
      } else if (from_leader(left()) >= until_left) {
        break;
      } else {
        __nanosleep(kNapNs);
      }
    }
    if (is_leader()) {
      nic_.words->served = done_;  // for the next launch, which begins after this one
      nic_.words->free_at = free_at_;
    }
  }

 private:
  static constexpr unsigned kAllLanes = 0xffffffffu;
  static constexpr int kLanes = 32;
  static constexpr uint64_t kMostUntold = 16;
  static constexpr unsigned kNapNs = 500;  // between looks over PCIe when idle

  using NearWord = cuda::atomic_ref<uint64_t, cuda::thread_scope_device>;

  __device__ bool is_leader() const { return lane_ == 0; }
  __device__ static uint64_t from_lane(uint64_t value, int lane) { return __shfl_sync(kAllLanes, value, lane); }
  __device__ static uint64_t from_leader(uint64_t value) { return from_lane(value, 0); }

  // This lane's number among those from `first` on.
  __device__ uint64_t number_from(uint64_t first) const {
    return first + ((static_cast<uint64_t>(lane_) - first) & (kLanes - 1));
  }

  __device__ uint64_t left() const { return NearWord(nic_.words->left).load(cuda::memory_order_acquire); }

  __device__ void take() {
    const uint64_t room = done_ + kLanes - taken_;
    if (room == 0) return;
    uint64_t seen = 0;
    if (is_leader()) seen = sm90::SystemAtomics::load_acquire(nic_.posted);  // pairs with the host's post
    __syncwarp();  // what the leader has acquired, the others have
    const uint64_t posted = from_leader(seen);
    const uint64_t end = min_of<uint64_t>(posted, taken_ + room);
    if (end == taken_) return;
    const uint64_t mine = number_from(taken_);
    if (mine < end) put_ = read(*nic_.place(mine));
    sm90::rows_before_async_reads();
    const uint64_t now = from_leader(sm90::clock_ns());
    for (; taken_ < end; ++taken_) {
      const int holder = static_cast<int>(taken_ % kLanes);
      free_at_ = reserve(now, free_at_, from_lane(put_.bytes, holder), nic_.ns_per_byte).end;
      if (lane_ == holder) due_ = free_at_ + nic_.latency_ns;
    }
  }

  // Member by member: as a whole it would be read byte by byte, each a read of its own over PCIe.
  __device__ static NicPut read(const NicPut& put) {
    return {put.from, put.to, put.bytes, put.signal, {put.pays.amount, put.pays.stamp}};
  }

  // One piece more is loaded, if there is one and room for it, and once enough are under way one is stored.
  __device__ void move_piece() {
    if (loading_ != taken_ && num_loaded_ < sm90::BulkCopier::kAhead) {
      const int holder = static_cast<int>(loading_ % kLanes);
      const uint64_t bytes = from_lane(put_.bytes, holder);
      const auto* from = reinterpret_cast<const std::byte*>(from_lane(reinterpret_cast<uint64_t>(put_.from), holder));
      const uint32_t piece = copier_.piece_bytes(bytes - load_at_);
      if (piece > 0 && sm90::is_one_lane()) copier_.load(from + load_at_, piece);
      has_looked_ = false;
      num_loaded_ += piece > 0 ? 1 : 0;
      load_at_ += piece;
      if (load_at_ == bytes) {
        load_at_ = 0;
        ++loading_;
      }
      if (loading_ != taken_ && num_loaded_ < sm90::BulkCopier::kAhead) return;
    }
    const int holder = static_cast<int>(copied_ % kLanes);
    const uint64_t bytes = from_lane(put_.bytes, holder);
    auto* to = reinterpret_cast<std::byte*>(from_lane(reinterpret_cast<uint64_t>(put_.to), holder));
    const uint32_t piece = copier_.piece_bytes(bytes - store_at_);
    if (piece > 0 && sm90::is_one_lane()) copier_.store(to + store_at_, piece);
    num_loaded_ -= piece > 0 ? 1 : 0;
    store_at_ += piece;
    if (store_at_ == bytes) {
      store_at_ = 0;
      ++copied_;
    }
    __syncwarp();
  }

  // Those that are due come first: the link's time only grows.
  __device__ void deliver() {
    const uint64_t now = from_leader(sm90::clock_ns());
    const bool is_ripe = number_from(done_) < copied_ && due_ <= now;
    const int num_ripe = __popc(__ballot_sync(kAllLanes, is_ripe));
    if (num_ripe == 0) return;
    if (sm90::is_one_lane()) copier_.finish();
    __syncwarp();
    if (is_ripe) pay();
    done_ += num_ripe;
  }

  // Pairs with a peer's wait.  Lanes pay at once, in no order: of their stamps the largest stays.
  __device__ void pay() {
    const NearWord signal(*put_.signal);
    if (put_.pays.stamp == 0) {
      signal.fetch_add(put_.pays.amount, cuda::memory_order_release);
    } else {
      signal.fetch_max(put_.pays.stamp, cuda::memory_order_release);
    }
  }

  __device__ void tell() {
    __syncwarp();
    if (is_leader()) sm90::SystemAtomics::store_release(nic_.completed, done_);  // pairs with the host's poll
    told_ = done_;
  }

  const NicQueue& nic_;
  const int lane_;
  sm90::BulkCopier copier_;  // of the lane that copies
  NicPut put_;               // this lane's
  uint64_t due_ = 0;
  uint64_t taken_;    // numbers, the same in all lanes: those below are taken, …
  uint64_t loading_;  // … this one is being loaded, …
  uint64_t copied_;
  uint64_t done_;
  uint64_t told_;
  uint64_t load_at_ = 0;  // bytes, of the put that is being loaded
  uint64_t store_at_ = 0;
  int num_loaded_ = 0;       // pieces, not yet stored
  bool has_looked_ = false;  // for more puts, since the last load
  uint64_t free_at_;
};

}  // namespace mk::bench
