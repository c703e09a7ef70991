// SPDX-License-Identifier: MIT
// tests/support/far_ranks.h — a world of processes on FarDevices, and launches of all operators in it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/world_state.h"
#include "tests/support/far_device.h"
#include "tests/support/op_processes.h"

namespace mk::test {

// Ranks that have this device, and count together what becomes of their windows.
class FarRanks {
 public:
  FarRanks(const WorldShape& shape, const std::string& net, uint64_t seed, const FarSettings& device = {})
      : shape_(shape),
        seed_(seed),
        device_(device),
        memory_(sizeof(FarCounts)),
        rendezvous_(std::make_unique<Rendezvous>()) {
    options.timeout_ms = 60'000;
    options.net = net;
  }

  Options options;
  // In a rank's process, before it joins and when it has.
  std::function<void(int rank)> prepare = [](int) {};
  std::function<void(const World& world)> check = [](const World&) {};

  const WorldShape& shape() const { return shape_; }
  FarCounts& counts() const { return *reinterpret_cast<FarCounts*>(memory_.data()); }

  // In the process of that rank.
  World join(int rank) {
    prepare(rank);
    const auto timeout = std::chrono::milliseconds(options.timeout_ms);
    auto bootstrap = rank == 0 ? std::make_unique<Bootstrap>(std::move(rendezvous_), shape_.size(), timeout)
                               : std::make_unique<Bootstrap>(rendezvous_->id(), rank, shape_.size(), timeout);
    auto device = std::make_unique<FarDevice>(rank, seed_of(seed_, rank), counts(), device_);
    World world(std::make_unique<runtime::WorldState>(shape_, std::move(bootstrap), std::move(device), options));
    check(world);
    return world;
  }

 private:
  WorldShape shape_;
  uint64_t seed_;
  FarSettings device_;
  CommonMemory memory_;
  std::unique_ptr<Rendezvous> rendezvous_;
};

inline testing::AssertionResult far_ranks_run_right(FarRanks& ranks, std::vector<OpLaunch> launches) {
  auto right = processes_run_right(ranks.shape(), launches, [&](int rank) { return ranks.join(rank); });
  const FarCounts& counts = ranks.counts();
  if (!right) return right;
  if (counts.landings + counts.payments == 0) return testing::AssertionFailure() << "nothing went through a Mover";
  if (counts.mapped != 0) return testing::AssertionFailure() << counts.mapped << " windows are still mapped";
  if (counts.freed_too_early != 0) return testing::AssertionFailure() << "a window was freed that a peer had mapped";
  if (counts.allocated == 0 || counts.forgotten != counts.allocated) {
    return testing::AssertionFailure() << counts.forgotten << " of " << counts.allocated << " windows were forgotten";
  }
  return right;
}

// Three launches of the operator whose turn it is.
inline testing::AssertionResult operators_run_right(FarRanks& ranks, int seed) {
  return far_ranks_run_right(ranks, launches_of(op_in_turn(seed), ranks.shape(), {13, 21, 3}, 3, seed));
}

// One launch with more bytes to a rank than the slots of a rail hold at once.
inline testing::AssertionResult a_large_shard_runs_right(FarRanks& ranks) {
  return far_ranks_run_right(ranks, launches_of(Op::kAgGemm, ranks.shape(), {512, 2, 4100}, 1));
}

}  // namespace mk::test
