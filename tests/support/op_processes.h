// SPDX-License-Identifier: MIT
// tests/support/op_processes.h — launches of operators in a world whose ranks are processes of this machine.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/op_launch.h"
#include "tests/support/processes.h"

namespace mk::test {

// launch_number 0 … count-1, all with B in one order.
std::vector<OpLaunch> launches_of(Op op, const WorldShape& world, const Shape& shape, int count, uint64_t seed = 1);

// Where each seed is one world.
inline Op op_in_turn(int seed) { return kOps[(static_cast<size_t>(seed) + 1) % kOps.size()]; }

// Runs run(rank) in a process for each rank, which leaves the rank's results in its launches' tensors; brings all of
// them here and checks them.
testing::AssertionResult processes_leave_right(const WorldShape& shape, std::vector<OpLaunch>& launches,
                                               const std::function<void(int rank)>& run);

// On CPUs: every rank joins with join(rank), queues all launches and waits.
testing::AssertionResult processes_run_right(const WorldShape& shape, std::vector<OpLaunch>& launches,
                                             const std::function<World(int rank)>& join);
testing::AssertionResult processes_run_right(const WorldShape& shape, std::vector<OpLaunch>& launches,
                                             const Options& options);

}  // namespace mk::test
