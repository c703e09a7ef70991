// SPDX-License-Identifier: MIT
// tests/sim/op_runs.cc — the one place where tests compile protocols for the simulator.
#include "tests/sim/op_runs.h"

#include "ops/ag_gemm/ag_gemm_fuzz.h"
#include "ops/gemm_ar/gemm_ar_fuzz.h"
#include "ops/gemm_rs/gemm_rs_fuzz.h"

namespace mk::test {
namespace {

void floor_columns(ag_gemm_op::Layout& layout) { layout.col_blocks = static_cast<int>(layout.n / layout.tile_n); }
void floor_columns(TileImage& image) { image.col_blocks = static_cast<int>(image.cols / image.tile_n); }
void floor_columns(gemm_rs_op::Layout& layout) { floor_columns(layout.shard); }
void floor_columns(gemm_ar_op::OneShotLayout& layout) { floor_columns(layout.whole); }

// Run: an operator's FuzzRun.
template <class Run>
class OpRunOf final : public OpRun {
 public:
  OpRunOf(uint64_t seed, const FuzzLimits& limits, Tracing tracing) : run_(seed, limits, tracing) {}

  void run() override { run_.run(); }
  void run_on(const MutantMaker& make) override {
    SpoiltMachine::planted = make;
    run_.template run<SpoiltMachine>();
  }
  void run_without_column_tails() override {
    auto floored = run_.layout();
    floor_columns(floored);
    if (floored.image().col_blocks > 0) run_.run(floored);
  }
  const sim::SimCore& core() const override { return run_.core(); }
  WorldShape world() const override { return run_.layout().world; }
  std::string describe() const override { return run_.describe(); }

 private:
  Run run_;
};

// Calls body with the operator's layout, whatever its type is.
template <class Body>
auto with_layout(Op op, const WorldShape& world, const OpCut& cut, Body&& body) {
  switch (op) {
    case Op::kAgGemm: return body(ag_layout(world, cut));
    case Op::kGemmRs: return body(rs_layout(world, cut));
    case Op::kGemmAr: return body(ar_layout(world, cut));
    case Op::kGemmArOneShot: break;
  }
  return body(one_shot_layout(world, cut));
}

}  // namespace

std::unique_ptr<OpRun> run_of(Op op, uint64_t seed, const FuzzLimits& limits, Tracing tracing) {
  switch (op) {
    case Op::kAgGemm: return std::make_unique<OpRunOf<ag_gemm_op::FuzzRun>>(seed, limits, tracing);
    case Op::kGemmRs: return std::make_unique<OpRunOf<gemm_rs_op::FuzzRun>>(seed, limits, tracing);
    case Op::kGemmAr: return std::make_unique<OpRunOf<gemm_ar_op::TwoShotRun>>(seed, limits, tracing);
    case Op::kGemmArOneShot: break;
  }
  return std::make_unique<OpRunOf<gemm_ar_op::OneShotRun>>(seed, limits, tracing);
}

std::unique_ptr<sim::SimWorld> simulated(Op op, const WorldShape& world, const OpCut& cut, int launches,
                                         const std::function<void(sim::SimSpec&)>& choose) {
  return with_layout(op, world, cut, [&](const auto& layout) {
    sim::SimSpec spec = gemm::sim_spec(layout, nullptr);
    choose(spec);
    auto run = std::make_unique<sim::SimWorld>(spec);
    gemm::simulate_world(*run, layout, launches, nullptr);
    return run;
  });
}

}  // namespace mk::test
