// SPDX-License-Identifier: MIT
// tests/sim/sm_sharing_test.cc — workers that share an SM share what it can move.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/gemm/gemm_sim.h"
#include "ops/gemm_ar/gemm_ar_problem.h"
#include "ops/gemm_rs/gemm_rs_problem.h"
#include "target/sim/sim_machine.h"
#include "target/sm90/communication_block.h"
#include "tools/sim_operators.h"

namespace mk::test {
namespace {

constexpr uint64_t kBytes = 1 << 20;
constexpr std::array<RoleName, 2> kRoles = {{{"copy", "chunk"}, {"compute", "tile"}}};

sim::SimSpec spec_of(const Roster& roles) {
  sim::SimSpec spec;
  spec.world = {1, 1};
  spec.roles = roles;
  spec.window_bytes = {kBytes};
  spec.names = {kRoles, [](uint32_t) { return std::string("signal"); }};
  spec.workers_per_sm = sm90::kWorkersPerSm;
  spec.costs.launch = 0;
  return spec;
}

// When all workers have done `copies` of a megabyte each, or a tile if they compute.
sim::Time time_of(const sim::SimSpec& spec, int copies, double flops = 0) {
  sim::SimWorld world(spec);
  world.run(1, [&](sim::Worker& worker) {
    sim::SimMachine machine(world, worker);
    if (worker.post.role == spec.roles.compute_role()) {
      if (flops > 0) machine.compute({.flops = flops}, 0);
      if (flops > 0) machine.compute({.flops = flops}, 1);
      return;
    }
    const Place from{kInputWindow, 0, 0};
    for (int i = 0; i < copies; ++i) machine.copy(Place{kFirstOperatorWindow, 0, 0}, from, kBytes);
  });
  EXPECT_FALSE(world.core().stopped());
  return world.ended();
}

TEST(SmSharing, EightWorkersOnOneSmAreSlowerTogetherThanOneAlone) {
  const sim::Time alone = time_of(spec_of({{1}, {1}}), 4);
  const sim::Time together = time_of(spec_of({{8}, {1}}), 4);
  EXPECT_GT(together, alone);
  EXPECT_LT(together, 8 * alone) << "one worker alone does not use all of an SM";
  const sim::Costs costs;
  EXPECT_NEAR(static_cast<double>(together), 8 * 4 * 2 * kBytes * 1000 / costs.sm_gb_s, 1e3);
  EXPECT_NEAR(static_cast<double>(alone), 4 * 2 * kBytes * 1000 / costs.worker_gb_s, 1e3);
}

TEST(SmSharing, TheNinthWorkerHasAnSmOfItsOwn) {
  EXPECT_EQ(time_of(spec_of({{16}, {1}}), 4), time_of(spec_of({{8}, {1}}), 4));
  EXPECT_EQ(time_of(spec_of({{9}, {1}}), 4), time_of(spec_of({{8}, {1}}), 4));
}

TEST(SmSharing, WithoutSharingEveryWorkerHasAnSm) {
  sim::SimSpec spec = spec_of({{8}, {1}});
  spec.workers_per_sm = 1;
  sim::SimSpec one = spec_of({{1}, {1}});
  one.workers_per_sm = 1;
  EXPECT_EQ(time_of(spec, 4), time_of(one, 4));
}

TEST(SmSharing, AWorkerInsideAComputeBlockCostsNoSm) {
  const Roster inside{{0, Seating::kInside}, {33}};
  constexpr Seats kSeats{33, sm90::kWorkersPerSm};
  EXPECT_EQ(kSeats.needed_by(inside), 33);
  EXPECT_EQ(inside.num_compute(), 33);
  const sim::SimSpec spec = spec_of(inside);
  const sim::SimCore core(spec);
  EXPECT_EQ(core.sms.size(), 33u) << "copying and computing workers sit together";
}

// Its copies take time from the maths of its block, and only what they occupy of the SM.
TEST(SmSharing, AWorkerInsideDelaysTheMathsOfItsBlock) {
  constexpr double kFlops = 1e9;  // a tile of 170 us: its copies are over before
  const sim::SimSpec spec = spec_of({{0, Seating::kInside}, {4}});
  const sim::Time idle = time_of(spec, 0, kFlops);
  const sim::Time busy = time_of(spec, 1, kFlops);
  const sim::Costs costs;
  EXPECT_EQ(busy - idle, sim::Costs::transfer(2 * kBytes, costs.sm_gb_s));
}

TEST(SmSharing, ANicThatAWarpPlaysSharesItsSm) {
  sim::SimSpec spec = spec_of({{4}, {1}});
  spec.world = {2, 1};
  const auto landed = [&](bool on_sm) {
    spec.nic_on_sm = on_sm;
    sim::SimCore core(spec);
    core.move(core.workers[0], 0, 100 * kBytes);
    return core.move_put(0, kBytes);
  };
  EXPECT_EQ(landed(false), 0u);
  EXPECT_GT(landed(true), sim::Costs::transfer(100 * kBytes, spec.costs.sm_gb_s));
}

// What `mkernel sim` predicts is the layout that a GPU would run: the split and the tile of its own choice.
struct Chosen {
  const char* op;
  WorldShape world;
  int64_t m, n, k;

  // Ranks of one node share a GPU where they are few, so that shapes see 132, 66 and 33 SMs.
  tools::Cluster cluster() const {
    return {.name = "test", .world = world, .sms = world.size() < 8 ? 132 / world.size() : 132};
  }
};

constexpr Chosen kChosen[] = {
    {"ag_gemm", {1, 8}, 16384, 4096, 8192}, {"ag_gemm", {1, 8}, 1024, 2048, 4096},
    {"ag_gemm", {2, 8}, 16384, 8192, 8192}, {"ag_gemm", {2, 8}, 8192, 1024, 2048},
    {"ag_gemm", {1, 4}, 8192, 4096, 4096},  {"gemm_rs", {1, 8}, 8192, 8192, 2048},
    {"gemm_rs", {2, 8}, 16384, 8192, 1024}, {"gemm_rs", {1, 2}, 2048, 4096, 4096},
    {"gemm_ar", {1, 8}, 8192, 8192, 2048},  {"gemm_ar", {2, 8}, 16384, 4096, 2048},
    {"gemm_ar", {1, 4}, 2048, 4096, 4096},  {"gemm_ar", {1, 8}, 64, 2048, 1024},
    {"ag_gemm", {1, 1}, 8192, 8192, 8192},
};

struct Layouted {
  Roster roles;
  PredictedTile tile;
};

template <class Layout>
Layouted layouted(const Layout& layout) {
  const int cluster = layout.cluster;
  return {layout.roles, {layout.image().tile_m / cluster, layout.image().tile_n, cluster}};
}

Layouted layout_on_gpu(const Chosen& chosen) {
  const gemm::Problem problem{chosen.world, chosen.m, chosen.n, chosen.k, DType::kBf16};
  const Seats seats{chosen.cluster().sms, sm90::kWorkersPerSm};
  const std::string op = chosen.op;
  if (op == "ag_gemm") return layouted(ag_gemm_op::layout_for(problem, {}, seats, DeviceKind::kCuda));
  if (op == "gemm_rs") return layouted(gemm_rs_op::layout_for(problem, {}, seats, DeviceKind::kCuda));
  const AllReducePath path = gemm_ar_op::path_for(problem, AllReducePath::kAuto);
  return gemm_ar_op::with_layout_for(problem, path, {}, seats, DeviceKind::kCuda,
                                     [](const auto& layout) { return layouted(layout); });
}

TEST(SmSharing, ThePredictedLayoutIsTheGpus) {
  for (const Chosen& chosen : kChosen) {
    SCOPED_TRACE(testing::Message() << chosen.op << " in " << chosen.world.nodes << "x" << chosen.world.ranks << ", m "
                                    << chosen.m);
    const Layouted expected = layout_on_gpu(chosen);
    tools::SimRequest request;
    request.m = chosen.m;
    request.n = chosen.n;
    request.k = chosen.k;
    for (const tools::SimOperator& op : tools::sim_operators()) {
      if (std::string(op.name) != chosen.op) continue;
      const Prediction p = op.predict(chosen.cluster(), request);
      EXPECT_EQ(p.tile, expected.tile);
      ASSERT_EQ(p.roles.front().role, "compute");
      EXPECT_EQ(p.roles.front().workers, expected.roles.num_compute());
      int workers = 0;
      for (const RoleUse& use : p.roles) workers += use.workers;
      EXPECT_EQ(workers, expected.roles.total());
    }
  }
}

// The table has what it is for: workers inside, a cluster of two, and the lowest tile.
TEST(SmSharing, TheTableHasEveryKindOfLayout) {
  EXPECT_TRUE(layout_on_gpu({"ag_gemm", {1, 8}, 16384, 4096, 8192}).roles.has_inside());
  EXPECT_EQ(layout_on_gpu({"ag_gemm", {1, 1}, 8192, 8192, 8192}).tile.cluster, 2);
  EXPECT_EQ(layout_on_gpu({"gemm_ar", {1, 8}, 64, 2048, 1024}).tile, (PredictedTile{64, 128, 1}));
}

}  // namespace
}  // namespace mk::test
