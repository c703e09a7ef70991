// SPDX-License-Identifier: MIT
// ops/gemm/gemm_fuzz.h — a seed's run of a GEMM operator.
//
// kDraw draws world, shape and split; the rest is the same for all of them.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "ops/fuzz_case.h"
#include "ops/gemm/gemm_problem.h"
#include "ops/gemm/gemm_sim.h"
#include "ops/split.h"
#include "target/sim/sim_world.h"

namespace mk::gemm {

// A small problem in fp32; its rows are the limits', or `rows`.
inline Problem draw_problem(sim::Random& random, const FuzzLimits& limits, const WorldShape& world,
                            const TileShape& tile, int64_t rows) {
  const int64_t n = 1 + random.below(tile.n + tile.n / 2);  // one tile or two
  const int64_t k = 1 + random.below(3);
  const Problem problem{world, limits.m.value_or(rows), limits.n.value_or(n), limits.k.value_or(k), DType::kFp32};
  constexpr int64_t kMost = 4096;  // a fuzzed run has data, and there are many of them
  check_arg(problem.m <= kMost, "m is {}; a fuzzed run takes at most {}", problem.m, kMost);
  check_arg(problem.n <= kMost, "n is {}; a fuzzed run takes at most {}", problem.n, kMost);
  check_arg(problem.k <= kMost, "k is {}; a fuzzed run takes at most {}", problem.k, kMost);
  return problem;
}

template <class AnyLayout, AnyLayout (*kDraw)(sim::Random&, const FuzzLimits&)>
class FuzzRun {
 public:
  using Layout = AnyLayout;

  // Throws Error(kInvalidArgument) if the limits do not fit together.
  FuzzRun(uint64_t seed, const FuzzLimits& limits, Tracing tracing = Tracing::kOff) {
    sim::Random random(seed);
    layout_ = kDraw(random, limits);
    launches_ = draw_launches(random, limits);
    data_ = std::make_unique<GemmData>(make_data(layout_, launches_, random.next()));
    sim::SimSpec spec = sim_spec(layout_, data_.get());
    disturb(spec, random, random.next());
    spec.traced = tracing == Tracing::kOn;
    world_ = std::make_unique<sim::SimWorld>(spec);
  }

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

  // "2x3, m 54, n 9, k 2, reduce 1 compute 3, 4 launches, ring of 2"
  std::string describe() const {
    return fmt::format("{}x{}, m {}, n {}, k {}, {}, {} launches, ring of {}", layout_.world.nodes, layout_.world.ranks,
                       layout_.m(), layout_.image().cols, layout_.k, in_words(Layout::kRoles, layout_.roles), launches_,
                       core().spec.ring_capacity);
  }

 private:
  Layout layout_;
  int launches_;
  std::unique_ptr<GemmData> data_;
  std::unique_ptr<sim::SimWorld> world_;
};

}  // namespace mk::gemm
