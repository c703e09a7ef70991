// SPDX-License-Identifier: MIT
// tools/op_moe_layer.cc — runs the MoE layer, forwards, and checks every element of every launch, and the bytes that
// were moved.
#include <algorithm>
#include <memory>
#include <vector>

#include "data_engine.h"
#include "launches.h"
#include "layer_checker.h"
#include "layer_data.h"
#include "matrix_memory.h"
#include "mkernel/moe_layer.h"
#include "moe_run.h"
#include "operators.h"
#include "ops/moe/moe_layer_targets.h"
#include "untouched.h"

namespace mk::tools {
namespace {

LayerData data_of(const Row& row, int launch) {
  return layer_data_for(row.k, row.n, row.moe->topk, row.dtype, row.seed, launch, clamped_by(row.moe->clamp));
}

CheckedLayer layer_of(const Row& row, const World& world) {
  return {row.dtype, row.k, row.n, row.moe->tokens, row.moe->experts, row.moe->topk, world.nodes(), row.moe->clamp};
}

struct RankData {
  Matrix x;
  runtime::Buffer ids;
  runtime::Buffer weights;
  Matrix w13;
  Matrix w2;
  Matrix out;  // one row more than tokens at most: nobody writes behind the last token
  ToldDrops told;
};

struct LaunchData {
  MoePairs pairs;
  MoeIds::Type ids;
  std::vector<RankData> ranks;  // that are here
};

class Runner {
 public:
  Runner(Row& row, World& world, const Split& split)
      : row_(row),
        world_(world),
        device_(world.state().device()),
        engine_(make_data_engine(device_)),
        split_(split),
        shape_{.hidden = row.k,
               .inter = row.n,
               .experts = row.moe->experts,
               .topk = row.moe->topk,
               .max_tokens = std::max<int64_t>(row.moe->tokens, 1),
               .max_rows = 1,
               .activation_clamp = row.moe->clamp} {}

  void run() {
    row_.workspace_bytes = moe_layer_workspace_bytes(world_, shape_, row_.dtype);  // refuses a bad shape
    set_rows(row_, world_, shape_);
    row_.workspace_bytes = moe_layer_workspace_bytes(world_, shape_, row_.dtype);
    const int batch = batch_of(row_, memory());
    const moe::LayerProblem problem{world_.state().shape(), shape_, row_.dtype};
    const runtime::Plan& plan = moe::plan_for(world_.state(), problem, split_);  // before the clock runs
    LayerChecker checker(layer_of(row_, world_), device_, *engine_);
    run_in_batches(
        row_, world_, batch, [&](int launch) { return make(launch); }, [&](const LaunchData& data) { queue(data); },
        [&](int launch, const LaunchData& data) { check(checker, launch, data); });
    count_traffic(row_, world_, plan);
    check_traffic(row_, world_, plan,
                  [&](const MoePairs& pairs, int rank) { return pairs.layer_traffic(rank, token_bytes(row_)); });
    merge(row_, world_);
  }

 private:
  int local_experts() const { return shape_.experts / world_.size(); }
  int64_t out_rows() const { return shape_.max_tokens + 1; }

  LaunchMemory memory() const {
    const auto elements = [&](int64_t rows) {
      return allocated_bytes(static_cast<double>(rows), static_cast<double>(row_.k), row_.dtype);
    };
    const double ranks = world_.size();
    const double weights = elements(int64_t{local_experts()} * 3 * row_.n);
    const double words = 12.0 * static_cast<double>(shape_.max_tokens) * shape_.topk;
    return {.per_launch = ranks * (elements(shape_.max_tokens) + weights + elements(out_rows()) + words),
            .once = ranks * static_cast<double>(row_.workspace_bytes) + LayerChecker::bytes(layer_of(row_, world_))};
  }

  LaunchData make(int launch) {
    LaunchData data{pairs_of(row_, world_, launch), ids_in(launch), {}};
    const LayerData specs = data_of(row_, launch);
    for_each_rank_here(world_, [&](int rank) {
      const std::vector<int64_t>& ids = data.pairs.asked_ids(rank);
      RankData& own = data.ranks.emplace_back(RankData{with_rows(device_, row_.dtype, data.pairs.tokens(rank), row_.k),
                                                       uploaded_ids(device_, ids, data.ids),
                                                       uploaded(device_, weights_of(specs.weights, rank, ids.size())),
                                                       {device_, row_.dtype, local_experts() * 2 * row_.n, row_.k},
                                                       {device_, row_.dtype, local_experts() * row_.k, row_.n},
                                                       {device_, row_.dtype, out_rows(), row_.k},
                                                       {device_, data.pairs, rank, row_}});
      if (own.x.view.rows > 0) engine_->fill(own.x.view, of(specs.x, rank));
      for (int i = 0; i < local_experts(); ++i) {
        const int expert = rank * local_experts() + i;
        engine_->fill(own.w13.rows(2 * i * row_.n, row_.n), of(specs.gate, expert));
        engine_->fill(own.w13.rows((2 * i + 1) * row_.n, row_.n), of(specs.up, expert));
        engine_->fill(own.w2.rows(i * row_.k, row_.k), of(specs.w2, expert));
      }
      engine_->poison(own.out.view);
    });
    return data;
  }

  void queue(const LaunchData& data) {
    std::vector<MoeLayerArgs> args;
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = data.ranks[rank - world_.first_rank()];
      args.push_back({.x = own.x.view,
                      .topk_idx = {own.ids.as(), data.ids},
                      .topk_weight = own.weights.as<float>(),
                      .w13 = own.w13.view,
                      .w2 = own.w2.view,
                      .out = own.out.rows(0, own.x.view.rows),
                      .stream = world_.rank_stream(rank)});
      own.told.ask(args.back());
    });
    moe_layer(world_, shape_, args, {split_});
  }

  void check(LayerChecker& checker, int launch, const LaunchData& data) {
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = data.ranks[rank - world_.first_rank()];
      const Matrix& out = own.out;
      row_.check.add(checker.check(data_of(row_, launch), data.pairs, rank, out.view));
      row_.check.wrong += count_touched(*engine_, device_, out, data.pairs.tokens(rank), out_rows());
      row_.check.wrong += own.told.count_wrong(device_, data.pairs, rank);
    });
  }

  Row& row_;
  World& world_;
  runtime::Device& device_;
  const std::unique_ptr<DataEngine> engine_;
  const Split split_;
  MoeLayerShape shape_;
};

}  // namespace

Row run_moe_layer(World& world, const RunRequest& request) {
  if (request.direction == Direction::kBackward) return run_moe_layer_backward(world, request);
  Row row = start_moe_row("moe_layer", world, request);
  row.products = 3;
  Runner(row, world, request.split).run();
  return row;
}

}  // namespace mk::tools
