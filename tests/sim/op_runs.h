// SPDX-License-Identifier: MIT
// tests/sim/op_runs.h — runs of every operator under virtual time: a seed's, and those without data.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ops/fuzz_case.h"
#include "target/sim/sim_world.h"
#include "tests/sim/mutants.h"
#include "tests/support/op_layouts.h"

namespace mk::test {

// A seed's run; complaints are in core().
class OpRun {
 public:
  virtual ~OpRun() = default;
  virtual void run() = 0;
  virtual void run_on(const MutantMaker& make) = 0;  // machines that get one thing wrong
  virtual void run_without_column_tails() = 0;       // not at all if that leaves no tile
  virtual const sim::SimCore& core() const = 0;
  virtual WorldShape world() const = 0;
  virtual std::string describe() const = 0;
};

// Throws Error(kInvalidArgument) if the limits do not fit together.
std::unique_ptr<OpRun> run_of(Op op, uint64_t seed, const FuzzLimits& limits = {}, Tracing tracing = Tracing::kOff);

// The world after so many launches without data; `choose` may set what else there is in the spec.
std::unique_ptr<sim::SimWorld> simulated(
    Op op, const WorldShape& world, const OpCut& cut, int launches,
    const std::function<void(sim::SimSpec&)>& choose = [](sim::SimSpec&) {});

}  // namespace mk::test
