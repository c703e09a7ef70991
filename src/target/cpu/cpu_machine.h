// SPDX-License-Identifier: MIT
// target/cpu/cpu_machine.h — the machine whose worker is a thread.
//
// Signals are atomic, payload is plain: ThreadSanitizer sees a release that is missing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "base/atomics.h"
#include "core/machine.h"
#include "core/rank_view.h"
#include "core/value_list.h"

namespace mk::cpu {

class CpuMachine {
 public:
  // Nobody of this launch has left before all have started reading: see RankView on the epoch.
  CpuMachine(const RankView& view, const Post& post, int worker, bool traced)
      : view_(view), post_(post), worker_(worker), traced_(traced) {
    epoch_ = view.epoch_after(HostAtomics::load_acquire(view.exits));
  }
  CpuMachine(const CpuMachine&) = delete;
  ~CpuMachine() {
    HostAtomics::add_relaxed(view_.nvlink_bytes, nvlink_bytes_);
    HostAtomics::add_release(view_.exits, 1);
  }

  const WorldShape& world() const { return view_.world; }
  int rank() const { return view_.rank; }
  uint64_t epoch() const { return epoch_; }
  const RankView& view() const { return view_; }

  // False if an earlier launch failed: nothing may be overwritten that its puts still read.
  bool begin() {
    if (HostAtomics::load_acquire(view_.stop) == 0) return true;
    record_fault(FaultKind::kStopped, kBegin, -1, 0, 0);
    return false;
  }

  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    const uint64_t* word = view_.windows.resolve(view_.world, view_.rank, signal);
    return wait_until(FaultKind::kSignal, word, wanted, signal, subject);
  }

  bool wait_some(uint32_t signal, uint64_t wanted, int64_t subject) { return wait(signal, wanted, subject); }
  bool wait_turn(uint32_t signal, uint64_t turn, int64_t subject) { return wait(signal, turn, subject); }
  void pass_turn(uint32_t signal) { add({view_.rank, signal}, 1); }
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) { return wait(signal, stamp, subject); }

  void add(const Signal& signal, uint64_t amount) {
    HostAtomics::add_release(view_.windows.resolve(view_.world, signal.rank, signal.index), amount);
  }

  // Its only payer, so a store is enough.  Pairs with wait_stamp.
  void stamp(const Signal& signal, uint64_t stamp) {
    HostAtomics::store_release(view_.windows.resolve(view_.world, signal.rank, signal.index), stamp);
  }

  uint32_t read(const Place& from) {
    uint32_t value = 0;
    std::memcpy(&value, view_.windows.resolve(view_.world, from), sizeof(value));
    count(from, sizeof(value));
    return value;
  }
  ValueList read_list(const Place& from, int count, uint64_t stride) { return read_each(*this, from, count, stride); }
  void write(const Place& to, uint32_t value) {
    std::memcpy(view_.windows.resolve(view_.world, to), &value, sizeof(value));
    count(to, sizeof(value));
  }

  void copy(const Place& to, const Place& from, uint64_t bytes) {
    std::memcpy(view_.windows.resolve(view_.world, to), view_.windows.resolve(view_.world, from), bytes);
    if (to.rank != from.rank) nvlink_bytes_ += bytes;
  }

  // The target has written, or reads, by itself: the bytes are only counted.
  void store(const Place& to, uint64_t bytes) { count(to, bytes); }
  void load(const Place& from, uint64_t bytes) { count(from, bytes); }

  bool put(const Put& put, int64_t subject) {
    const RingProducer<HostAtomics> ring{view_.ring};
    const uint64_t position = ring.claim();
    if (!ring.is_free(position) && !wait_until(FaultKind::kRingFull, view_.ring.consumed,
                                               position - view_.ring.capacity + 1, kRingRoom, subject)) {
      return false;
    }
    ring.publish(position, to_command(put, view_.windows));
    last_put_ = position + 1;
    return true;
  }

  bool settle() { return wait_until(FaultKind::kUnsettled, view_.ring.completed, last_put_, kPutsDone, -1); }

  void refuse(uint32_t reason, int64_t subject, uint64_t seen, uint64_t allowed) {
    leave_record(FaultKind::kRefused, reason, subject, seen, allowed);
  }

  // The worker cannot go on: it could not allocate.
  void give_up_without_memory() { record_fault(FaultKind::kNoMemory, kBegin, -1, 0, 0); }

  void note(const Event& event) {
    if (!traced_) return;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    events_.push_back({event, view_.rank, post_.role, post_.index, epoch_,
                       static_cast<uint64_t>(std::chrono::nanoseconds(now).count())});
  }

  const std::vector<EventRecord>& events() const { return events_; }

 private:
  void count(const Place& place, uint64_t bytes) {
    if (place.rank != view_.rank) nvlink_bytes_ += bytes;
  }

  bool wait_until(FaultKind kind, const uint64_t* word, uint64_t wanted, uint32_t signal, int64_t subject) {
    constexpr int kSpins = 64;
    constexpr int kYields = 256;
    uint64_t seen = HostAtomics::load_acquire(word);
    if (seen >= wanted) return true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(view_.timeout_ns);
    for (int round = 0;; ++round) {
      seen = HostAtomics::load_acquire(word);
      if (seen >= wanted) return true;
      if (HostAtomics::load_acquire(view_.stop) != 0) kind = FaultKind::kStopped;
      if (kind == FaultKind::kStopped || std::chrono::steady_clock::now() >= deadline) break;
      if (round > kYields) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      } else if (round > kSpins) {
        std::this_thread::yield();
      }
    }
    record_fault(kind, signal, subject, seen, wanted);
    return false;
  }

  void record_fault(FaultKind kind, uint32_t signal, int64_t subject, uint64_t seen, uint64_t wanted) {
    leave_record(kind, signal, subject, seen, wanted);
    HostAtomics::store_release(view_.stop, 1);  // pairs with every wait
  }

  // The first fault of a worker is the one to tell; what it refused does not keep it from that.
  void leave_record(FaultKind kind, uint32_t signal, int64_t subject, uint64_t seen, uint64_t wanted) {
    FaultRecord& record = view_.fault_record(worker_, kind == FaultKind::kRefused ? kRefusalRecord : 0);
    if (HostAtomics::load_acquire(&record.sealed) != 0) return;
    const FaultRecord said{kind,   view_.rank, post_.role, post_.index, view_.plan,
                           signal, subject,    seen,       wanted,      epoch_};
    std::memcpy(static_cast<void*>(&record), &said, offsetof(FaultRecord, sealed));  // others may look at `sealed`
    HostAtomics::store_release(&record.sealed, 1);                                   // pairs with Plan::faults
  }

  const RankView view_;
  const Post post_;
  const int worker_;
  const bool traced_;
  uint64_t epoch_ = 0;
  uint64_t nvlink_bytes_ = 0;
  uint64_t last_put_ = 0;
  std::vector<EventRecord> events_;
};

static_assert(Machine<CpuMachine>);

}  // namespace mk::cpu
