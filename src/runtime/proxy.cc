// SPDX-License-Identifier: MIT
// runtime/proxy.cc — see proxy.h.
#include "runtime/proxy.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/what.h"
#include "transport/start_thread.h"

namespace mk::runtime {
namespace {

// Idle rounds before the proxy yields its core, and before it sleeps between looks.
constexpr uint64_t kSpins = 2000;
constexpr uint64_t kYields = 4000;
constexpr std::chrono::microseconds kNap{50};

// A proxy that may stay awake naps so for a while before it sleeps deeper: launches that were queued long ago, or are
// replayed from a graph, announce themselves by their first command only.
constexpr std::chrono::microseconds kLightNap{10};
constexpr std::chrono::seconds kLightSleep{1};

constexpr int kMostPuts = 32;  // between two polls: completions must not wait for a ring that never empties

// Larger puts gain nothing by being one, and land later.
constexpr uint64_t kMostJoinedBytes = 64 << 10;

// What a NIC can carry beside a put in its immediate word.
constexpr uint32_t kMostJoinedAmount = 16;

bool are_neighbours(const Command& a, const Command& b) {
  return a.from_window == b.from_window && a.to_window == b.to_window && a.signal_window == b.signal_window &&
         a.signal_index == b.signal_index && a.to_rank == b.to_rank && a.from_offset + a.bytes == b.from_offset &&
         a.to_offset + a.bytes == b.to_offset;
}

bool may_join(const Command& a, const Command& b) {
  return a.stamp == 0 && b.stamp == 0 && a.bytes <= kMostJoinedBytes && b.bytes <= kMostJoinedBytes - a.bytes &&
         a.amount <= kMostJoinedAmount && b.amount <= kMostJoinedAmount - a.amount && are_neighbours(a, b);
}

// Cores that are not there or not allowed are done without.
void stay_on(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  sched_setaffinity(0, sizeof(set), &set);  // of this thread
}

// Linux lets a sleeping thread oversleep by 50 us, as much as a nap is long.
void nap_exactly() {
  constexpr unsigned long kSlackNs = 1000;
  prctl(PR_SET_TIMERSLACK, kSlackNs);  // of this thread
}

void add(std::atomic<uint64_t>& counter, uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

uint64_t read(const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

Proxy::Proxy(RingView ring, std::unique_ptr<Fabric> fabric, uint64_t* stop, const ProxySettings& settings)
    : ring_(ring),
      fabric_(std::move(fabric)),
      stop_(stop),
      settings_(settings),
      thread_(start_thread(fmt::format("the proxy of rank {}", settings.rank), [this] { run(); })) {}

Proxy::~Proxy() {
  quit_.store(true, std::memory_order_relaxed);
  thread_.join();
}

std::string Proxy::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

NetworkStats Proxy::stats() const {
  return {.commands = read(counters_.commands),
          .puts = read(counters_.puts),
          .bytes = read(counters_.bytes),
          .batches = read(counters_.batches),
          .largest_batch = read(counters_.largest_batch),
          .full = read(counters_.full)};
}

void Proxy::run() {
  stay_on(settings_.cores);
  nap_exactly();
  using Clock = std::chrono::steady_clock;
  uint64_t idle = 0;
  uint64_t expected = 0;
  Clock::time_point awake_until;
  while (!quit_.load(std::memory_order_relaxed)) {
    const uint64_t now_expected = expected_.load(std::memory_order_relaxed);
    if (step() || now_expected != expected) {
      idle = 0;
      expected = now_expected;
    } else if (++idle == kSpins) {  // the clock is not read while commands come
      awake_until = Clock::now() + settings_.patience;
    } else if (idle <= kSpins) {
      continue;
    } else if (const auto now = Clock::now(); idle <= kYields || now < awake_until) {
      std::this_thread::yield();
    } else {
      const bool is_light = settings_.patience.count() > 0 && now < awake_until + kLightSleep;
      fabric_->nap(is_light ? kLightNap : kNap);
    }
  }
  fabric_.reset();  // by the thread that used it, which may have made itself at home on a GPU
}

// Takes what is in the ring, then looks at the fabric.  True if something moved.
bool Proxy::step() {
  if (failed_) return false;
  try {
    return carry();
  } catch (const std::exception& error) {  // no memory, say: of a thread that throws the process dies
    fail(what_of(error));
    return false;
  }
}

bool Proxy::carry() {
  bool moved = take_commands() > 0;
  if (failed_) return false;
  tickets_.clear();
  if (fabric_->poll(tickets_) == PutResult::kFailed) {
    fail(fabric_->failure());
    return false;
  }
  if (!tickets_.empty()) {
    publish_completed();
    moved = true;
  }
  return moved;
}

uint32_t Proxy::take_commands() {
  uint32_t taken = 0;
  for (int puts = 0; puts < kMostPuts; ++puts) {
    const Command* next = ring_.peek();
    if (next == nullptr) break;
    Command command = *next;
    const uint32_t num_joined = join_following(command);
    const PutResult result = fabric_->put(command, ring_.position());
    if (result == PutResult::kFailed) {
      fail(fabric_->failure());
      return taken;
    }
    if (result == PutResult::kFull && !std::exchange(was_full_, true)) add(counters_.full, 1);
    if (result == PutResult::kFull) break;
    was_full_ = false;
    completions_.put(num_joined);
    count_put(command, num_joined);
    ring_.pop(num_joined);
    taken += num_joined;
  }
  if (taken > 0) {
    add(counters_.batches, 1);
    counters_.largest_batch.store(std::max<uint64_t>(read(counters_.largest_batch), taken), std::memory_order_relaxed);
  }
  return taken;
}

// Makes `command`, the next one, stand for as many as may be one put, and says how many those are.  They stay in the
// ring until the fabric has taken them: what it refuses was not put, joined or not.
uint32_t Proxy::join_following(Command& command) const {
  for (uint32_t num = 1;; ++num) {
    const Command* following = ring_.peek(num);
    if (following == nullptr || !may_join(command, *following)) return num;
    command.bytes += following->bytes;
    command.amount += following->amount;
  }
}

void Proxy::count_put(const Command& command, uint32_t num_joined) {
  add(counters_.commands, num_joined);
  add(counters_.puts, 1);
  add(counters_.bytes, command.bytes);
}

void Proxy::publish_completed() {
  for (const uint64_t ticket : tickets_) completions_.complete(ticket);
  ring_.complete(completions_.all_below());
}

void Proxy::fail(std::string why) {
  failed_ = true;
  {
    const std::lock_guard lock(mutex_);
    failure_ = why.empty() ? "it gave no reason" : std::move(why);
  }
  HostAtomics::store_release(stop_, 1);
}

}  // namespace mk::runtime
