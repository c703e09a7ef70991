// SPDX-License-Identifier: MIT
// tests/support/bare_plan.h — a plan with no operator: windows, signals and rings for tests of machines.
#pragma once

#include <memory>
#include <vector>

#include "core/rank_view.h"
#include "runtime/host_device.h"
#include "runtime/plan.h"
#include "target/cpu/cpu_machine.h"
#include "tests/support/ring_memory.h"
#include "transport/window_registry.h"

namespace mk::test {

struct BarePlanOptions {
  WorldShape world = {1, 1};
  int workers = 1;
  uint64_t window_bytes = 64;
  uint32_t num_signals = 4;
  uint64_t timeout_ns = 30'000'000'000;
  uint32_t ring_capacity = 2;
};

class BarePlan {
 public:
  explicit BarePlan(const BarePlanOptions& options) : device_(options.world.size()) {
    std::vector<RingView> rings;
    for (int rank = 0; rank < options.world.size(); ++rank) {
      rings_.push_back(std::make_unique<RingMemory>(options.ring_capacity));
      rings.push_back(rings_.back()->view());
    }
    runtime::PlanSpec spec;
    spec.window_bytes = {options.window_bytes};
    spec.num_signals = options.num_signals;
    spec.workers = options.workers;
    const runtime::PlanSite site{.world = options.world,
                                 .members = {0, options.world.size()},
                                 .device = device_,
                                 .windows = windows_,
                                 .rings = rings,
                                 .stop = &stop_,
                                 .timeout_ns = options.timeout_ns};
    plan_ = std::make_unique<runtime::Plan>(0, spec, site);
    plan_->open(site);
  }
  BarePlan(const BarePlan&) = delete;

  const RankView& view(int rank) const { return plan_->view(rank); }
  const runtime::Plan& plan() const { return *plan_; }
  runtime::Plan& plan() { return *plan_; }
  const WindowRegistry& windows() const { return windows_; }
  RingMemory& ring(int rank) { return *rings_[rank]; }
  uint64_t* stop() { return &stop_; }

  // The machine of a worker that plays compute.
  cpu::CpuMachine machine(int rank, int worker = 0) {
    return cpu::CpuMachine(view(rank), Post{0, worker, view(rank).workers}, worker, false);
  }

  template <class T>
  T* window(int rank) const {
    const Place start{kFirstOperatorWindow, rank, 0};
    return reinterpret_cast<T*>(view(rank).windows.resolve(view(rank).world, start));
  }

 private:
  runtime::HostDevice device_;
  WindowRegistry windows_;
  std::vector<std::unique_ptr<RingMemory>> rings_;
  uint64_t stop_ = 0;
  std::unique_ptr<runtime::Plan> plan_;
};

}  // namespace mk::test
