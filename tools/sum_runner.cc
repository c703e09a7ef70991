// SPDX-License-Identifier: MIT
// tools/sum_runner.cc — see sum_runner.h.
#include "sum_runner.h"

#include <memory>
#include <string>
#include <vector>

#include "data_engine.h"
#include "matrix_memory.h"
#include "runtime/world_state.h"
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

int64_t c_rows(const SumOperator& op, const Row& row, int world_size) {
  return op.output == Output::kAll ? row.m : row.m / world_size;
}

DataSpec spec_of(const Row& row, int world_size, int launch, uint64_t tensor, int rank) {
  DataSpec spec = data_for_sum(row.k, world_size, largest_integer(row.dtype), row.seed, launch);
  if (tensor == kTensorB) spec.period = 1;
  spec.tensor = tensor;
  spec.rank = rank;
  return spec;
}

// Partial results are rounded where they leave their rank, sums where they leave their node.
Hops hops_in(const World& world, DType dtype) {
  if (world.size() == 1) return {};
  return hops_of(dtype, world.size(), world.nodes() > 1 ? 2 : 1, world.ranks_per_node() + world.nodes());
}

LaunchMemory memory_of(const SumOperator& op, const Row& row, int world_size) {
  const double a = allocated_bytes(row.m, row.k, row.dtype);
  const double b = allocated_bytes(row.k, row.n, row.dtype);
  const double c = allocated_bytes(c_rows(op, row, world_size), row.n, row.dtype);
  const double workspace = static_cast<double>(row.workspace_bytes);
  return {.per_launch = world_size * (a + b + c), .once = world_size * (workspace + a + b)};
}

LaunchData make_launch(const SumOperator& op, const Row& row, const World& world, runtime::Device& device,
                       DataEngine& engine, int launch) {
  LaunchData data;
  for_each_rank_here(world, [&](int rank) {
    RankData& own = data.emplace_back(RankData{{device, row.dtype, row.m, row.k},
                                               {device, row.dtype, row.k, row.n},
                                               {device, row.dtype, c_rows(op, row, world.size()), row.n}});
    engine.fill(own.a.view, spec_of(row, world.size(), launch, kTensorA, rank));
    engine.fill(own.b.view, spec_of(row, world.size(), launch, kTensorB, rank));
    engine.poison(own.c.view);
  });
  return data;
}

void queue_launch(const SumOperator& op, World& world, const LaunchData& data, const Split& split) {
  std::vector<GemmArgs> args;
  for_each_rank_here(world, [&](int rank) {
    const RankData& own = data[rank - world.first_rank()];
    args.push_back({.a = own.a.view, .b = own.b.view, .c = own.c.view, .stream = world.rank_stream(rank)});
  });
  op.launch(world, args, split);
}

// Makes the inputs again, so that a launch that spoilt its inputs is found out as well.
class Checker {
 public:
  Checker(const SumOperator& op, const Row& row, const World& world, runtime::Device& device, DataEngine& engine)
      : op_(op),
        row_(row),
        world_(world),
        world_size_(world.size()),
        hops_(hops_in(world, row.dtype)),
        engine_(engine),
        a_(device, row.dtype, world_size_ * row.m, row.k),
        b_(device, row.dtype, world_size_ * row.k, row.n) {}

  CheckResult check(int launch, const LaunchData& data) {
    for (int rank = 0; rank < world_size_; ++rank) {
      engine_.fill(a_.rows(rank * row_.m, row_.m), spec_of(row_, world_size_, launch, kTensorA, rank));
      engine_.fill(b_.rows(rank * row_.k, row_.k), spec_of(row_, world_size_, launch, kTensorB, rank));
    }
    CheckResult worst;
    for_each_rank_here(world_, [&](int rank) { worst.add(check_rank(launch, rank, data)); });
    return worst;
  }

 private:
  // Where every rank has all rows, the first one here is checked and the others must have the same bits.
  CheckResult check_rank(int launch, int rank, const LaunchData& data) {
    const Tensor& c = data[rank - world_.first_rank()].c.view;
    const bool is_copy = op_.output == Output::kAll && rank > world_.first_rank();
    if (is_copy) return {engine_.count_different(c, data[0].c.view), 0, 0};
    const DataKind kind = spec_of(row_, world_size_, launch, kTensorA, rank).kind;
    const int64_t first_row = op_.output == Output::kAll ? 0 : rank * c.rows;
    return engine_.check_sum({a_.view, b_.view, c, world_size_, first_row, hops_}, kind);
  }

  const SumOperator& op_;
  const Row& row_;
  const World& world_;
  int world_size_;
  Hops hops_;
  DataEngine& engine_;
  Matrix a_;  // of all ranks, one under the other
  Matrix b_;
};

// Of all results of the first rank here, in the order of launches.
class Digest {
 public:
  explicit Digest(World& world) : world_(world) {}

  void add(const LaunchData& launch) {
    const Tensor& c = launch[0].c.view;
    bytes_.resize(static_cast<size_t>(c.rows * c.cols) * size_of(c.dtype));
    world_.state().device().download(bytes_.data(), c.data, bytes_.size());
    for (const unsigned char byte : bytes_) digest_ = mix(digest_ + byte + kGoldenRatio);
  }

  // Whether rank 0 has other bits.  All processes ask.
  bool differs() const {
    const std::string mine = std::to_string(digest_);
    return world_.state().exchange(mine, "digests of the results").front() != mine;
  }

 private:
  World& world_;
  uint64_t digest_ = 0;
  std::vector<unsigned char> bytes_;
};

}  // namespace

Row run_sum(const SumOperator& op, World& world, const RunRequest& request) {
  Row row = start_row(op.name, world, request);
  check_same_flags(row, request.split, world);
  row.workspace_bytes = op.workspace_bytes(world, row);
  check_usage(row.k <= kLongestExactSum, "--k is {}; longer sums than {} cannot be checked", row.k, kLongestExactSum);
  const int batch = batch_of(row, memory_of(op, row, world.size()));

  runtime::WorldState& state = world.state();
  const std::unique_ptr<DataEngine> engine = make_data_engine(state.device());
  const gemm::Problem problem{state.shape(), row.m, row.n, row.k, row.dtype};
  const runtime::Plan& plan = op.plan(state, problem, request.split);  // before the clock runs
  Checker checker(op, row, world, state.device(), *engine);
  Digest digest(world);
  run_in_batches(
      row, world, batch, [&](int launch) { return make_launch(op, row, world, state.device(), *engine, launch); },
      [&](const LaunchData& data) { queue_launch(op, world, data, request.split); },
      [&](int launch, const LaunchData& data) {
        row.check.add(checker.check(launch, data));
        if (op.output == Output::kAll) digest.add(data);
      });
  count_traffic(row, world, plan);
  if (op.output == Output::kAll && digest.differs()) ++row.check.wrong;
  merge(row, world);
  return row;
}

}  // namespace mk::tools
