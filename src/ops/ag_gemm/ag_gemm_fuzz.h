// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_fuzz.h — a seed's run of AllGather+GEMM: world, shape, split, launches, disturbance.
#pragma once

#include <memory>
#include <string>

#include "ops/ag_gemm/ag_gemm_sim.h"
#include "ops/fuzz_case.h"
#include "target/sim/sim_world.h"

namespace mk::ag_gemm_op {

class FuzzRun {
 public:
  // Throws Error(kInvalidArgument) if the limits do not fit together.
  FuzzRun(uint64_t seed, const FuzzLimits& limits, bool traced = false);

  // Runs on machine M; complaints are in core().  A test may have the workers follow another layout.
  template <class M = sim::SimMachine>
  void run() {
    run<M>(layout_);
  }
  template <class M = sim::SimMachine>
  void run(const Layout& followed) {
    simulate_world<M>(*world_, followed, launches_, data_.get());
  }

  const sim::SimCore& core() const { return world_->core(); }
  const Layout& layout() const { return layout_; }

  // "2x3, m 54, n 9, k 2, intra 1 send 2 compute 3, 4 launches, ring of 2"
  std::string describe() const;

 private:
  Layout layout_;
  int launches_;
  std::unique_ptr<SimData> data_;
  std::unique_ptr<sim::SimWorld> world_;
};

}  // namespace mk::ag_gemm_op
