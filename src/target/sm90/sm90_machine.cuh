// SPDX-License-Identifier: MIT
// target/sm90/sm90_machine.cuh — the machine whose worker is a crew of threads in a CTA.
//
// Waits poll at system scope and give up at the deadline or when the rank has stopped (stop_look.cuh).
#pragma once

#include <concepts>
#include <cstdint>

#include "base/math.h"
#include "core/crew.h"
#include "core/machine.h"
#include "core/rank_view.h"
#include "core/value_list.h"
#include "core/wait_due.h"
#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/fault_record.cuh"
#include "target/sm90/pace.cuh"
#include "target/sm90/ptx.cuh"
#include "target/sm90/rank_words.h"
#include "target/sm90/row_copies.cuh"
#include "target/sm90/stop_look.cuh"
#include "target/sm90/values_of.cuh"
#include "target/sm90/warp_crew.cuh"

namespace mk::sm90 {

template <Crew C, class Pace = NoPace>
class Sm90Machine {
 public:
  // `worker` is its number in the rank; `pieces` is empty for one that never copies.  Jobs of a worker that wait at the
  // same time are parts 0 and 1 of it.  Crews that share a part also share a word, zero at first, in shared memory: the
  // first of them that fails leaves the record.
  __device__ Sm90Machine(const RankView& view, const Post& post, int worker, const BulkPieces& pieces, const Pace& pace,
                         int part = 0, uint32_t* failed = nullptr)
      : view_(view), post_(post), worker_(worker), part_(part), failed_(failed), copier_(pieces), pace_(pace) {}

  __device__ const WorldShape& world() const { return view_.world; }
  __device__ int rank() const { return view_.rank; }

  // Read when first asked for: a worker that waits for nobody need not wait for this either.
  __device__ uint64_t epoch() const {
    if (epoch_ == 0) epoch_ = view_.epoch_after(SystemAtomics::load_acquire(view_.exits));
    return epoch_;
  }

  __device__ bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    // Tile after tile often hangs on the same signal, and a look takes microseconds beside a GEMM.
    if (signal == last_signal_ && wanted <= last_wanted_) return true;
    if (!wait_until(FaultKind::kSignal, word_of(signal), wanted, signal, subject)) return false;
    has_released_ = false;
    last_signal_ = signal;
    last_wanted_ = wanted;
    return true;
  }

  // Whether a wait for that would return at once.  If so, it will, without another look.
  __device__ bool look(uint32_t signal, uint64_t wanted) {
    if (signal == last_signal_ && wanted <= last_wanted_) return true;
    if (!crew_.leader_says(crew_.is_leader() && SystemAtomics::load_acquire(word_of(signal)) >= wanted)) return false;
    rows_before_async_reads();
    has_released_ = false;
    last_signal_ = signal;
    last_wanted_ = wanted;
    return true;
  }

  __device__ bool wait_some(uint32_t signal, uint64_t wanted, int64_t subject) { return wait(signal, wanted, subject); }
  __device__ bool wait_turn(uint32_t signal, uint64_t turn, int64_t subject) { return wait(signal, turn, subject); }
  __device__ bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) { return wait(signal, stamp, subject); }

  // A lane for each, and then one after the other those that were not there at once.
  template <class Of>
  __device__ bool wait_each_due(int count, const Of& of, int64_t subject) requires std::same_as<C, WarpCrew> {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    DueWait own;
    if (lane < count) own = of(lane);
    uint64_t wanted = 0;
    if (own.signal != DueWait::kNoSignal) {
      const auto* due = reinterpret_cast<const volatile uint32_t*>(view_.windows.resolve(view_.world, own.due));
      wanted = (uint64_t{due[1]} << 32 | due[0]) * own.times;
    }
    bool is_there = wanted == 0;
    if (!is_there) {
      is_there = SystemAtomics::load_acquire(word_of(own.signal)) >= wanted;  // pairs with release()
    }
    has_released_ = false;
    for (uint32_t missing = __ballot_sync(0xffffffffu, !is_there); missing != 0; missing &= missing - 1) {
      const int which = __ffs(static_cast<int>(missing)) - 1;
      const uint32_t signal = __shfl_sync(0xffffffffu, own.signal, which);
      if (!wait(signal, __shfl_sync(0xffffffffu, wanted, which), subject + which)) return false;
    }
    __syncwarp();  // what one lane has acquired, the others have
    rows_before_async_reads();
    return true;
  }

  __device__ void add(const Signal& signal, uint64_t amount) {
    if (crew_.is_leader()) {
      release();
      SystemAtomics::tell_relaxed(view_.windows.resolve(view_.world, signal.rank, signal.index), amount);
    }
    crew_.sync();
  }

  // Only workers on this GPU wait for it: to them a narrower fence publishes, which takes less than half as long.
  __device__ void pass_turn(uint32_t signal) {
    if (crew_.is_leader()) {
      copier_.finish();
      DeviceAtomics::add_release(word_of(signal), 1);
    }
    crew_.sync();
  }

  // Its only payer, so a store is enough.  Pairs with wait_stamp.
  __device__ void stamp(const Signal& signal, uint64_t stamp) {
    if (crew_.is_leader()) {
      release();
      SystemAtomics::store_relaxed(view_.windows.resolve(view_.world, signal.rank, signal.index), stamp);
    }
    crew_.sync();
  }

  // The leader has acquired it and reads it for all.
  __device__ uint32_t read(const Place& from) {
    uint32_t value = 0;
    finish_copies();
    if (crew_.is_leader()) {
      value = *reinterpret_cast<const volatile uint32_t*>(view_.windows.resolve(view_.world, from));
      if (from.rank != view_.rank) nvlink_bytes_ += sizeof(value);
    }
    return crew_.leaders(value);
  }
  // Every lane reads one, after what the leader has acquired; or finds one, or reads one of this rank's anywhere.
  __device__ ValuesOf<C> read_list(const Place& from, int count, uint64_t stride) {
    finish_copies();
    if (crew_.is_leader() && from.rank != view_.rank) nvlink_bytes_ += count * sizeof(uint32_t);
    return ValuesOf<C>(view_.windows.resolve(view_.world, from), count, stride);
  }
  template <class ValueOf>
  __device__ ValuesOf<C> list_of(int count, const ValueOf& value_of) requires std::same_as<C, WarpCrew> {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return ValuesOf<C>(lane < count ? value_of(lane) : 0);
  }
  template <class PlaceOf>
  __device__ ValuesOf<C> read_places(int count, const PlaceOf& place_of) requires std::same_as<C, WarpCrew> {
    finish_copies();
    return list_of(count, [&](int i) {
      const Place place = place_of(i);
      if (place.window == kNowhere.window) return uint32_t{0};
      return uint32_t{*reinterpret_cast<const volatile uint32_t*>(view_.windows.resolve(view_.world, place))};
    });
  }
  // The leader releases it with its next add, stamp or put; a copy may take it along before.
  __device__ void write(const Place& to, uint32_t value) {
    if (!crew_.is_leader()) return;
    has_released_ = false;
    copier_.finish();
    *reinterpret_cast<volatile uint32_t*>(view_.windows.resolve(view_.world, to)) = value;
    rows_before_async_reads();
    if (to.rank != view_.rank) nvlink_bytes_ += sizeof(value);
  }

  __device__ void copy(const Place& to, const Place& from, uint64_t bytes) {
    if (crew_.is_leader()) {
      has_released_ = false;
      has_copies_ = true;
      if (to.rank != from.rank) pace_.charge(bytes);
      copier_.copy(view_.windows.resolve(view_.world, to), view_.windows.resolve(view_.world, from), bytes);
      if (to.rank != from.rank) nvlink_bytes_ += bytes;
    }
    crew_.sync();
  }

  // Adds fp32 numbers to others, element by element; both places are this rank's.
  __device__ void add_floats(const Place& to, const Place& from, uint64_t bytes) {
    if (crew_.is_leader()) {
      has_released_ = false;
      has_copies_ = true;
      copier_.add(reinterpret_cast<float*>(view_.windows.resolve(view_.world, to)),
                  view_.windows.resolve(view_.world, from), bytes);
    }
    crew_.sync();
  }
  // The worker's own copies and additions come before what it reads.  All threads.
  __device__ void finish_copies() {
    if (crew_.is_leader() && has_copies_) {
      copier_.finish();
      has_copies_ = false;
    }
    crew_.sync();
  }

  // A lane for each vector.
  __device__ void copy_few(const Place& to, const Place& from, uint64_t bytes) requires std::same_as<C, WarpCrew> {
    finish_copies();
    has_released_ = false;
    const uint32_t lane = threadIdx.x % 32;
    if (lane * sizeof(uint4) < bytes) {
      const auto* const source = reinterpret_cast<const uint4*>(view_.windows.resolve(view_.world, from));
      reinterpret_cast<uint4*>(view_.windows.resolve(view_.world, to))[lane] = __ldcg(source + lane);
    }
    crew_.sync();
    if (to.rank == from.rank || !crew_.is_leader()) return;
    pace_.charge(bytes);
    nvlink_bytes_ += bytes;
  }

  // All have landed when this returns.
  template <class FromAt>
  __device__ void copy_rows(const Place& to, int rows, uint64_t bytes,
                            const FromAt& from_at) requires std::same_as<C, WarpCrew> {
    has_released_ = false;
    const Place first = from_at(0);
    if (crew_.is_leader()) {
      copier_.finish_reads();
      if (to.rank != first.rank) {
        pace_.charge(rows * bytes);
        nvlink_bytes_ += rows * bytes;
      }
    }
    const auto source_of = [&](int row) { return view_.windows.resolve(view_.world, from_at(row)); };
    copy_rows_of_lanes(copier_, num_copied(), view_.windows.resolve(view_.world, to), rows, bytes, source_of);
  }

  // The crew's threads have written by themselves: after the barrier the leader's next release covers all
  // of them.  What a TMA store wrote is covered if the leader issued it, see BulkCopier::finish.
  __device__ void store(const Place& to, uint64_t bytes) {
    has_released_ = false;
    crew_.sync();
    if (crew_.is_leader() && to.rank != view_.rank) {
      pace_.charge(bytes);
      nvlink_bytes_ += bytes;
    }
  }

  // A lane for each.
  template <class ToAt>
  __device__ void store_each(int count, const ToAt& to_at, uint64_t bytes) requires std::same_as<C, WarpCrew> {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    crew_.sync();  // as in store
    const uint32_t far = __ballot_sync(0xffffffffu, lane < count && to_at(lane).rank != view_.rank);
    has_released_ = false;
    if (far == 0 || !crew_.is_leader()) return;
    pace_.charge(__popc(far) * bytes);
    nvlink_bytes_ += __popc(far) * bytes;
  }

  template <class KeyOf, class Visit>
  __device__ void for_each_key(int count, const KeyOf& key_of, const Visit& visit) requires std::same_as<C, WarpCrew> {
    for_each_key_of_lanes(count, key_of, visit);
  }

  // The crew's threads read by themselves, after the wait that made it visible.
  __device__ void load(const Place& from, uint64_t bytes) {
    if (from.rank == view_.rank) return;
    if (crew_.is_leader()) {
      pace_.charge(bytes);
      pace_.wait();
      nvlink_bytes_ += bytes;
    }
    crew_.sync();
  }

  __device__ bool put(const Put& put, int64_t subject) {
    const RingProducer<SystemAtomics> ring{view_.ring};
    uint64_t position = 0;
    if (crew_.is_leader()) {
      copier_.finish();
      pace_.wait();
      position = ring.claim();
    }
    const uint64_t wanted = position < view_.ring.capacity ? 0 : position - view_.ring.capacity + 1;
    if (!wait_for_room(wanted, subject)) return false;
    if (crew_.is_leader()) ring.publish(position, to_command(put, view_.windows));
    crew_.sync();
    return true;
  }

  // The last of the role's workers waits for all: many that look at host memory stand in the way of the puts that they
  // wait for.
  __device__ bool settle() {
    uint64_t wanted = 0;
    if (crew_.is_leader()) {
      const uint64_t settlers =
          SystemAtomics::add_acq_rel(settlers_of(view_, post_.role), 1) + 1;  // pairs with the others'
      if (settlers == settlers_after(epoch(), post_.count)) wanted = SystemAtomics::load_relaxed(view_.ring.claimed);
    }
    return wait_until(FaultKind::kUnsettled, view_.ring.completed, wanted, kPutsDone, -1);
  }

  __device__ void refuse(uint32_t reason, int64_t subject, uint64_t seen, uint64_t allowed) {
    if (crew_.is_leader()) leave_record(kRefusalRecord, FaultKind::kRefused, reason, subject, seen, allowed);
  }

  __device__ void note(const Event&) {}

  // Pieces that went through the buffer, for who uses it after this machine.
  __device__ uint32_t num_copied() const { return crew_.leaders(copier_.num_copied()); }

  // The worker's last act; its block adds to `exits` when all its threads are done.
  __device__ void close() {
    if (!crew_.is_leader()) return;
    copier_.finish();  // a role that gave up may have left copies that still read this block's shared memory
    if (nvlink_bytes_ > 0) SystemAtomics::tell_relaxed(view_.nvlink_bytes, nvlink_bytes_);
  }

 private:
  __device__ uint64_t* word_of(uint32_t signal) const { return view_.windows.resolve(view_.world, view_.rank, signal); }

  // One fence publishes to all who are told in a row; each costs as much as the way to a peer.  Pairs with the acquire
  // in wait_until.
  __device__ void release() {
    copier_.finish();
    pace_.wait();
    if (!has_released_) SystemAtomics::fence_release();
    has_released_ = true;
  }

  // `consumed` lies in host memory, a microsecond or two away, so what was seen there is kept.
  __device__ bool wait_for_room(uint64_t wanted, int64_t subject) {
    if (crew_.leader_says(wanted <= consumed_seen_)) return true;
    if (!wait_until(FaultKind::kRingFull, view_.ring.consumed, wanted, kRingRoom, subject)) return false;
    if (crew_.is_leader()) consumed_seen_ = SystemAtomics::load_relaxed(view_.ring.consumed);
    return true;
  }

  static constexpr int kPolls = 32;                // between looks at the clock
  static constexpr unsigned kFirstFarNapNs = 500;  // between looks at the proxy's counters, in host memory as well
  static constexpr unsigned kMostFarNapNs = 4000;

  __device__ bool wait_until(FaultKind kind, const uint64_t* word, uint64_t wanted, uint32_t signal, int64_t subject) {
    bool seen = true;
    if (crew_.is_leader() && wanted > 0 && SystemAtomics::load_acquire(word) < wanted) {
      seen = poll(kind, word, wanted, signal, subject);
    }
    seen = crew_.leader_says(seen);
    rows_before_async_reads();
    return seen;
  }

  __device__ bool poll(FaultKind kind, const uint64_t* word, uint64_t wanted, uint32_t signal, int64_t subject) {
    const uint64_t began = clock_ns();
    uint64_t looked = began;
    uint64_t seen = 0;
    unsigned nap = kFirstFarNapNs;
    for (int round = 1;; ++round) {
      seen = SystemAtomics::load_relaxed(word);
      if (seen >= wanted) {
        SystemAtomics::load_acquire(word);
        return true;
      }
      if (kind != FaultKind::kSignal) {
        __nanosleep(nap);
        nap = min_of(2 * nap, kMostFarNapNs);
      } else if (round % kPolls != 0) {
        continue;
      }
      const uint64_t now = clock_ns();
      if (now - looked < kLookNs) continue;
      looked = now;
      if (is_stopped(view_, now)) kind = FaultKind::kStopped;
      if (kind == FaultKind::kStopped || now - began >= view_.timeout_ns) break;
    }
    record_fault(kind, signal, subject, seen, wanted);
    return false;
  }

  __device__ void record_fault(FaultKind kind, uint32_t signal, int64_t subject, uint64_t seen, uint64_t wanted) {
    leave_record(part_, kind, signal, subject, seen, wanted);
    SystemAtomics::store_release(view_.stop, 1);  // waits look at it relaxed: it orders nothing
  }

  // The first fault of a worker is the one to tell; what it refused does not keep it from that.
  __device__ void leave_record(int part, FaultKind kind, uint32_t signal, int64_t subject, uint64_t seen,
                               uint64_t wanted) {
    FaultRecord& record = view_.fault_record(worker_, part);
    if (SystemAtomics::load_acquire(&record.sealed) != 0) return;
    if (failed_ != nullptr && atomicExch(failed_, 1u) != 0) return;
    fill_record(record, view_, post_, {kind, signal, subject, seen, wanted, epoch()});
  }

  const RankView& view_;
  const Post post_;
  const int worker_;
  const int part_;
  uint32_t* const failed_;
  BulkCopier copier_;
  [[no_unique_address]] C crew_;
  [[no_unique_address]] Pace pace_;
  mutable uint64_t epoch_ = 0;
  uint64_t nvlink_bytes_ = 0;
  uint64_t consumed_seen_ = 0;
  bool has_copies_ = false;            // that may not have landed; the leader's
  bool has_released_ = false;          // everything acquired and written so far; the leader's
  uint32_t last_signal_ = UINT32_MAX;  // of the last wait that ended well: signals only grow
  uint64_t last_wanted_ = 0;
};

}  // namespace mk::sm90
