// SPDX-License-Identifier: MIT
// tools/op_ag_gemm.cc — runs AllGather+GEMM and checks every element of every launch on every rank.
#include <memory>
#include <vector>

#include "data_engine.h"
#include "launches.h"
#include "matrix_memory.h"
#include "mkernel/ag_gemm.h"
#include "operators.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "usage.h"

namespace mk::tools {
namespace {

enum : uint64_t { kTensorA, kTensorB };

struct RankData {
  Matrix a;
  Matrix b;
  Matrix c;
};

using LaunchData = std::vector<RankData>;  // of the ranks that are here

DataSpec spec_of(const Row& row, int launch, uint64_t tensor, int rank) {
  DataSpec spec = data_for(row.k, row.seed, launch);
  spec.tensor = tensor;
  spec.rank = rank;
  return spec;
}

LaunchMemory memory_of(const Row& row, double world_size) {
  const double a = allocated_bytes(row.m, row.k, row.dtype);
  const double b = allocated_bytes(row.k, row.n, row.dtype);
  const double c = allocated_bytes(row.m, row.n, row.dtype);
  const double shard = allocated_bytes(row.m / world_size, row.k, row.dtype);
  const double workspace = world_size * static_cast<double>(row.workspace_bytes);
  return {.per_launch = world_size * (shard + b + c), .once = workspace + a + b};
}

LaunchData make_launch(const Row& row, const World& world, runtime::Device& device, DataEngine& engine, int launch) {
  LaunchData data;
  for_each_rank_here(world, [&](int rank) {
    RankData& own = data.emplace_back(RankData{{device, row.dtype, row.m / world.size(), row.k},
                                               {device, row.dtype, row.k, row.n},
                                               {device, row.dtype, row.m, row.n}});
    engine.fill(own.a.view, spec_of(row, launch, kTensorA, rank));
    engine.fill(own.b.view, spec_of(row, launch, kTensorB, rank));
    engine.poison(own.c.view);
  });
  return data;
}

void queue_launch(World& world, const LaunchData& data, const Split& split) {
  std::vector<AgGemmArgs> args;
  for_each_rank_here(world, [&](int rank) {
    const RankData& own = data[rank - world.first_rank()];
    args.push_back({.a = own.a.view, .b = own.b.view, .c = own.c.view, .stream = world.rank_stream(rank)});
  });
  ag_gemm(world, args, {split});
}

// Makes the inputs again, so that a launch that spoilt its inputs is found out as well.
class Checker {
 public:
  Checker(const Row& row, const World& world, runtime::Device& device, DataEngine& engine)
      : row_(row),
        world_(world),
        engine_(engine),
        gathered_(device, row.dtype, row.m, row.k),
        b_(device, row.dtype, row.k, row.n) {}

  CheckResult check(int launch, const LaunchData& data) {
    const int64_t shard_rows = row_.m / world_.size();
    for (int rank = 0; rank < world_.size(); ++rank) {
      engine_.fill(gathered_.rows(rank * shard_rows, shard_rows), spec_of(row_, launch, kTensorA, rank));
    }
    CheckResult worst;
    for_each_rank_here(world_, [&](int rank) {
      const DataSpec spec = spec_of(row_, launch, kTensorB, rank);
      engine_.fill(b_.view, spec);
      worst.add(engine_.check_gemm(gathered_.view, b_.view, data[rank - world_.first_rank()].c.view, spec.kind));
    });
    return worst;
  }

 private:
  const Row& row_;
  const World& world_;
  DataEngine& engine_;
  Matrix gathered_;
  Matrix b_;
};

}  // namespace

Row run_ag_gemm(World& world, const RunRequest& request) {
  Row row = start_row("ag_gemm", world, request);
  check_same_flags(row, request.split, world);
  row.workspace_bytes = ag_gemm_workspace_bytes(world, row.m, row.n, row.k, row.dtype);  // refuses a bad shape
  check_usage(row.k <= kLongestExactSum, "--k is {}; longer sums than {} cannot be checked", row.k, kLongestExactSum);
  const int batch = batch_of(row, memory_of(row, world.size()));

  runtime::WorldState& state = world.state();
  const std::unique_ptr<DataEngine> engine = make_data_engine(state.device());
  const ag_gemm_op::Problem problem{state.shape(), row.m, row.n, row.k, row.dtype};
  const AgGemmOptions options{.split = request.split};
  const runtime::Plan& plan = ag_gemm_op::plan_for(state, problem, options);  // before the clock runs
  Checker checker(row, world, state.device(), *engine);
  run_in_batches(
      row, world, batch, [&](int launch) { return make_launch(row, world, state.device(), *engine, launch); },
      [&](const LaunchData& data) { queue_launch(world, data, request.split); },
      [&](int launch, const LaunchData& data) { row.check.add(checker.check(launch, data)); });
  count_traffic(row, world, plan);
  merge(row, world);
  return row;
}

}  // namespace mk::tools
