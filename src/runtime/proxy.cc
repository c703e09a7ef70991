// SPDX-License-Identifier: MIT
// runtime/proxy.cc — see proxy.h.
#include "runtime/proxy.h"

#include <utility>

#include "runtime/start_thread.h"

namespace mk::runtime {
namespace {

// Idle rounds before the proxy yields its core, and before it sleeps between looks.
constexpr uint64_t kSpins = 2000;
constexpr uint64_t kYields = 4000;
constexpr std::chrono::microseconds kNap{50};

constexpr int kMostPuts = 32;  // between two polls: completions must not wait for a ring that never empties

}  // namespace

Proxy::Proxy(RingView ring, std::unique_ptr<Fabric> fabric, uint64_t* stop, std::chrono::microseconds patience)
    : ring_(ring),
      fabric_(std::move(fabric)),
      stop_(stop),
      patience_(patience),
      thread_(start_thread([this] { run(); })) {}

Proxy::~Proxy() {
  quit_.store(true, std::memory_order_relaxed);
  thread_.join();
}

std::string Proxy::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Proxy::run() {
  using Clock = std::chrono::steady_clock;
  uint64_t idle = 0;
  Clock::time_point awake_until;
  while (!quit_.load(std::memory_order_relaxed)) {
    if (step()) {
      idle = 0;
    } else if (++idle == kSpins) {  // the clock is not read while commands come
      awake_until = Clock::now() + patience_;
    } else if (idle > kYields && Clock::now() >= awake_until) {
      fabric_->nap(kNap);
    } else if (idle > kSpins) {
      std::this_thread::yield();
    }
  }
}

// Takes what is in the ring, then looks at the fabric.  True if something moved.
bool Proxy::step() {
  if (failed_) return false;
  bool moved = false;
  for (int puts = 0; puts < kMostPuts; ++puts) {
    const Command* command = ring_.peek();
    if (command == nullptr) break;
    const PutResult result = fabric_->put(*command, ring_.position());
    if (result == PutResult::kFull) break;
    if (result == PutResult::kFailed) {
      fail();
      return false;
    }
    bytes_put_.fetch_add(command->bytes, std::memory_order_relaxed);
    ring_.pop();
    moved = true;
  }
  tickets_.clear();
  if (fabric_->poll(tickets_) == PutResult::kFailed) {
    fail();
    return false;
  }
  if (!tickets_.empty()) {
    publish_completed();
    moved = true;
  }
  return moved;
}

void Proxy::publish_completed() {
  ahead_.insert(tickets_.begin(), tickets_.end());
  while (!ahead_.empty() && *ahead_.begin() == completed_) {
    ahead_.erase(ahead_.begin());
    ++completed_;
  }
  ring_.complete(completed_);
}

void Proxy::fail() {
  failed_ = true;
  {
    const std::lock_guard lock(mutex_);
    failure_ = fabric_->failure();
    if (failure_.empty()) failure_ = "it gave no reason";
  }
  HostAtomics::store_release(stop_, 1);
}

}  // namespace mk::runtime
