// SPDX-License-Identifier: MIT
// tools/op_moe_layer_backward.cc — runs the backward pass of the MoE layer and checks every gradient of every launch,
// and the bytes that were moved.
//
// gate and up, which the forward pass would have kept, are data like all others.
#include <algorithm>
#include <memory>
#include <vector>

#include "launches.h"
#include "layer_backward_checker.h"
#include "mkernel/moe_layer_backward.h"
#include "moe_run.h"
#include "operators.h"
#include "ops/moe/moe_backward_targets.h"
#include "untouched.h"

namespace mk::tools {
namespace {

struct RankData {
  Matrix x;
  runtime::Buffer ids;
  runtime::Buffer weights;
  Matrix w13;
  Matrix w2;
  Matrix kept;  // NaN behind the rows that are routed
  Matrix dout;
  BackwardOutputs outputs;  // one row more than there are at most: nobody writes behind the last
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
    row_.workspace_bytes = moe_layer_backward_workspace_bytes(world_, shape_, row_.dtype);  // refuses a bad shape
    set_rows(row_, world_, shape_);
    row_.workspace_bytes = moe_layer_backward_workspace_bytes(world_, shape_, row_.dtype);
    const int batch = batch_of(row_, memory());
    const moe::LayerProblem problem{world_.state().shape(), shape_, row_.dtype};
    const runtime::Plan& plan = moe::backward_plan_for(world_.state(), problem, split_);  // before the clock runs
    BackwardChecker checker(row_, world_.state().shape(), device_, *engine_);
    run_in_batches(
        row_, world_, batch, [&](int launch) { return make(launch); }, [&](const LaunchData& data) { queue(data); },
        [&](int launch, const LaunchData& data) { check(checker, launch, data); });
    count_traffic(row_, world_, plan);
    check_traffic(row_, world_, plan,
                  [&](const MoePairs& pairs, int rank) { return pairs.backward_traffic(rank, token_bytes(row_)); });
    merge(row_, world_);
  }

 private:
  int64_t local_experts() const { return shape_.experts / world_.size(); }
  int64_t w13_rows() const { return local_experts() * 2 * row_.n; }
  int64_t w2_rows() const { return local_experts() * row_.k; }

  LaunchMemory memory() const {
    const auto elements = [&](int64_t rows, int64_t cols) {
      return allocated_bytes(static_cast<double>(rows), static_cast<double>(cols), row_.dtype);
    };
    const double ranks = world_.size();
    const double tokens = 2 * elements(shape_.max_tokens, row_.k) + elements(shape_.max_tokens + 1, row_.k);
    const double weights = elements(w13_rows(), row_.k) + elements(w13_rows() + 1, row_.k) +
                           elements(w2_rows(), row_.n) + elements(w2_rows() + 1, row_.n);
    const double words = 16.0 * static_cast<double>(shape_.max_tokens + 1) * shape_.topk;
    return {.per_launch = ranks * (tokens + weights + elements(shape_.max_rows, 2 * row_.n) + words),
            .once = ranks * static_cast<double>(row_.workspace_bytes) + BackwardChecker::bytes(row_)};
  }

  BackwardOutputs poisoned_outputs() {
    BackwardOutputs outputs{{device_, row_.dtype, shape_.max_tokens + 1, row_.k},
                            {device_, DType::kFp32, shape_.max_tokens + 1, shape_.topk},
                            {device_, row_.dtype, w13_rows() + 1, row_.k},
                            {device_, row_.dtype, w2_rows() + 1, row_.n}};
    for (const Matrix* one : {&outputs.dx, &outputs.dtopk_weight, &outputs.dw13, &outputs.dw2}) {
      engine_->poison(one->view);
    }
    return outputs;
  }

  // Of the rows of a rank, in their order.
  void fill_kept_of(const RankData& own, const MoePairs& pairs, const DataSpec& spec, int rank) {
    engine_->poison(own.kept.view);
    int64_t row = 0;
    for (int64_t i = 0; i < local_experts(); ++i) {
      const std::vector<MoePair>& rows = pairs.of_expert(static_cast<int>(rank * local_experts() + i));
      fill_kept(*engine_, own.kept.rows(row, std::ssize(rows)), spec, rows, world_.size());
      row += std::ssize(rows);
    }
  }

  LaunchData make(int launch) {
    LaunchData data{pairs_of(row_, world_, launch), ids_in(launch), {}};
    const BackwardData specs = backward_data_of(row_, data.pairs, launch);
    for_each_rank_here(world_, [&](int rank) {
      const std::vector<int64_t>& ids = data.pairs.asked_ids(rank);
      const int64_t tokens = data.pairs.tokens(rank);
      RankData& own = data.ranks.emplace_back(RankData{with_rows(device_, row_.dtype, tokens, row_.k),
                                                       uploaded_ids(device_, ids, data.ids),
                                                       uploaded(device_, weights_of(specs.weights, rank, ids.size())),
                                                       {device_, row_.dtype, w13_rows(), row_.k},
                                                       {device_, row_.dtype, w2_rows(), row_.n},
                                                       {device_, row_.dtype, shape_.max_rows, 2 * row_.n},
                                                       with_rows(device_, row_.dtype, tokens, row_.k),
                                                       poisoned_outputs()});
      if (tokens > 0) engine_->fill(own.x.view, of(specs.x, rank));
      if (tokens > 0) engine_->fill(own.dout.view, of(specs.dout, rank));
      for (int64_t i = 0; i < local_experts(); ++i) {
        fill_expert(*engine_, own.w13.rows(2 * i * row_.n, 2 * row_.n), own.w2.rows(i * row_.k, row_.k), specs,
                    static_cast<int>(rank * local_experts() + i));
      }
      fill_kept_of(own, data.pairs, specs.kept, rank);
    });
    return data;
  }

  void queue(const LaunchData& data) {
    std::vector<MoeLayerBackwardArgs> args;
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = data.ranks[rank - world_.first_rank()];
      args.push_back({.x = own.x.view,
                      .topk_idx = {own.ids.as(), data.ids},
                      .topk_weight = own.weights.as<float>(),
                      .w13 = own.w13.view,
                      .w2 = own.w2.view,
                      .kept = own.kept.view,
                      .dout = own.dout.view,
                      .dx = own.outputs.dx.rows(0, own.x.view.rows),
                      .dtopk_weight = own.outputs.dtopk_weight.memory.as<float>(),
                      .dw13 = own.outputs.dw13.rows(0, w13_rows()),
                      .dw2 = own.outputs.dw2.rows(0, w2_rows()),
                      .stream = world_.rank_stream(rank)});
    });
    moe_layer_backward(world_, shape_, args, {split_});
  }

  void check(BackwardChecker& checker, int launch, const LaunchData& data) {
    for_each_rank_here(world_, [&](int rank) {
      const BackwardOutputs& outputs = data.ranks[rank - world_.first_rank()].outputs;
      row_.check.add(checker.check(launch, data.pairs, rank, outputs));
      const auto count_behind = [&](const Matrix& matrix, int64_t rows) {
        row_.check.wrong += count_touched(*engine_, device_, matrix, rows, matrix.view.rows);
      };
      count_behind(outputs.dx, data.pairs.tokens(rank));
      count_behind(outputs.dtopk_weight, data.pairs.tokens(rank));
      count_behind(outputs.dw13, w13_rows());
      count_behind(outputs.dw2, w2_rows());
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

Row run_moe_layer_backward(World& world, const RunRequest& request) {
  Row row = start_moe_row("moe_layer", world, request);
  row.products = 6;
  Runner(row, world, request.split).run();
  return row;
}

}  // namespace mk::tools
