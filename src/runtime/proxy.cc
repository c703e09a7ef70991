// SPDX-License-Identifier: MIT
// runtime/proxy.cc — see proxy.h.
#include "runtime/proxy.h"

#include <chrono>
#include <utility>

#include "runtime/start_thread.h"

namespace mk::runtime {
namespace {

// Idle rounds before the proxy yields its core, and before it sleeps between looks.
constexpr int kSpins = 2000;
constexpr int kYields = 4000;
constexpr std::chrono::microseconds kNap{50};

}  // namespace

Proxy::Proxy(RingView ring, std::unique_ptr<Fabric> fabric, uint64_t* stop)
    : ring_(ring), fabric_(std::move(fabric)), stop_(stop), thread_(start_thread([this] { run(); })) {}

Proxy::~Proxy() {
  quit_.store(true, std::memory_order_relaxed);
  thread_.join();
}

std::string Proxy::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Proxy::run() {
  int idle = 0;
  while (!quit_.load(std::memory_order_relaxed)) {
    if (step()) {
      idle = 0;
    } else if (++idle > kYields) {
      std::this_thread::sleep_for(kNap);
    } else if (idle > kSpins) {
      std::this_thread::yield();
    }
  }
}

// One look at the ring and one at the fabric.  True if something moved.
bool Proxy::step() {
  if (failed_) return false;
  bool moved = false;
  if (const Command* command = ring_.peek()) {
    switch (fabric_->put(*command, ring_.position())) {
      case PutResult::kSent:
        bytes_put_.fetch_add(command->bytes, std::memory_order_relaxed);
        ring_.pop();
        moved = true;
        break;
      case PutResult::kFull: break;
      case PutResult::kFailed: fail(); return false;
    }
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
