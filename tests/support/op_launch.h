// SPDX-License-Identifier: MIT
// tests/support/op_launch.h — one launch of an operator, with inputs of its own, and its check.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tests/support/op_table.h"

namespace mk::test {

class OpLaunch {
 public:
  OpLaunch(Op op, const WorldShape& world, const OpCase& at, uint64_t seed = 1, Data data = Data::kExact);

  Op op() const { return op_; }

  // One per rank; outputs are poisoned until somebody writes them.
  std::vector<OpArgs> args();

  // Names the first element that is wrong.
  testing::AssertionResult is_right() const;

  // True if no element of the rank's outputs was written.
  bool is_untouched(int rank) const;

  bool has_the_same_bits(const OpLaunch& other) const;

 private:
  Op op_;
  LaunchData data_;
};

// The operator's public call.
void call(Op op, World& world, std::span<const OpArgs> args, const OpSettings& settings = {});

// Launches all ranks that are here.  A World as users have it, and one built around a hooked fabric, launch alike.
void enqueue(World& world, OpLaunch& launch, const OpSettings& settings = {});
void enqueue(runtime::WorldState& world, OpLaunch& launch, const OpSettings& settings = {});

// What the second is made of, for tests that launch some of the ranks.
inline const OpSettings kUsualSettings;
const runtime::Plan& plan_of(runtime::WorldState& world, OpLaunch& launch, const OpSettings& settings = kUsualSettings);
void launch_rank(runtime::WorldState& world, const runtime::Plan& plan, OpLaunch& launch, int rank);

// Waits, and throws what went wrong.
void finish(World& world);
void finish(runtime::WorldState& world);
WorldShape shape_of(const World& world);
WorldShape shape_of(const runtime::WorldState& world);

struct RunOptions {
  DType dtype = DType::kFp32;
  int launches = 5;
  uint64_t seed = 1;
  Split split = {};
  Data data = Data::kExact;
  std::optional<GemmForm> form = {};  // none: B lies now in one order, now in the other
  TileSize tile = {};
};

// The i-th launch of such a run.
OpLaunch launch_number(int i, Op op, const WorldShape& world, const Shape& shape, const RunOptions& options = {});

// Queues make(0) … make(count-1) back to back, waits once, and checks every one.
testing::AssertionResult all_run_right(World& world, int count, const std::function<OpLaunch(int)>& make,
                                       const OpSettings& settings = {});

// The same with launch_number.
testing::AssertionResult runs_right(World& world, Op op, const Shape& shape, const RunOptions& options = {});
testing::AssertionResult runs_right(runtime::WorldState& world, Op op, const Shape& shape,
                                    const RunOptions& options = {});

}  // namespace mk::test
