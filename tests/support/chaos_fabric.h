// SPDX-License-Identifier: MIT
// tests/support/chaos_fabric.h — a fabric that does everything a fabric may: reorders, delays, stalls, fills up.
//
// A put is taken into a queue and handed to the inner fabric at a later call, in random order; its
// ticket is reported later still, in random order.  Now and then nothing moves for many calls.  What a
// fabric promises is kept: every put lands once, and a ticket comes back after its put has landed.
// All choices follow from the seed and the sequence of calls.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "transport/fabric.h"

namespace mk::test {

// Chances in percent, per call.
struct ChaosOptions {
  int full = 25;         // put answers kFull
  int release = 30;      // one held put goes on its way; tried until it does not happen
  int report = 30;       // one completed ticket is told; tried until it does not happen
  int stall = 3;         // nothing moves for a while
  int stall_calls = 40;  // at most
};

class ChaosFabric : public Fabric {
 public:
  ChaosFabric(std::unique_ptr<Fabric> inner, uint64_t seed, const ChaosOptions& options = {})
      : inner_(std::move(inner)), random_(seed), options_(options) {}

  PutResult put(const Command& command, uint64_t ticket) override {
    if (chance(options_.full)) return PutResult::kFull;
    held_.push_back({command, ticket});
    return move_things();
  }

  PutResult poll(std::vector<uint64_t>& completed) override {
    if (move_things() == PutResult::kFailed) return PutResult::kFailed;
    if (inner_->poll(untold_) == PutResult::kFailed) return PutResult::kFailed;
    while (stalled_ == 0 && !untold_.empty() && chance(options_.report)) completed.push_back(take_any(untold_));
    return PutResult::kSent;
  }

  std::string failure() const override { return inner_->failure(); }

 private:
  struct Held {
    Command command;
    uint64_t ticket;
  };

  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

  template <class T>
  T take_any(std::vector<T>& from) {
    std::swap(from[random_() % from.size()], from.back());
    const T taken = from.back();
    from.pop_back();
    return taken;
  }

  PutResult move_things() {
    if (stalled_ > 0) {
      --stalled_;
      return PutResult::kSent;
    }
    if (chance(options_.stall)) stalled_ = static_cast<int>(random_() % options_.stall_calls);
    while (!held_.empty() && chance(options_.release)) {
      const Held next = take_any(held_);
      const PutResult result = inner_->put(next.command, next.ticket);
      if (result == PutResult::kFailed) return result;
      if (result == PutResult::kFull) {
        held_.push_back(next);
        break;
      }
    }
    return PutResult::kSent;
  }

  std::unique_ptr<Fabric> inner_;
  std::mt19937_64 random_;
  ChaosOptions options_;
  int stalled_ = 0;
  std::vector<Held> held_;
  std::vector<uint64_t> untold_;  // landed, not yet told
};

}  // namespace mk::test
