// SPDX-License-Identifier: MIT
// tools/op_moe_layer.cc — runs the MoE layer, forwards, and checks every element of every launch, and the bytes that
// were moved.
#include <algorithm>
#include <memory>
#include <vector>

#include "data_engine.h"
#include "launches.h"
#include "layer_data.h"
#include "layer_reference.h"
#include "matrix_memory.h"
#include "mkernel/moe_layer.h"
#include "moe_run.h"
#include "operators.h"
#include "ops/moe/moe_layer_targets.h"

namespace mk::tools {
namespace {

LayerData data_of(const Row& row, int launch) {
  return layer_data_for(row.k, row.n, row.moe->topk, row.dtype, row.seed, launch, clamped_by(row.moe->clamp));
}

// Makes inputs again, those of other ranks too, and compares outputs with what they must give: some tokens of a rank at
// a time, and of those the rows of one expert after the other.
class Checker {
 public:
  Checker(const Row& row, const World& world, runtime::Device& device, DataEngine& engine)
      : row_(row),
        engine_(engine),
        hops_(layer_hops(row.dtype, row.moe->topk, world.nodes())),
        size_(size_of_check(row)),
        reference_(device, size_),
        x_(device, row.dtype, size_.rows, row.k),
        gate_(device, row.dtype, row.n, row.k),
        up_(device, row.dtype, row.n, row.k),
        w2_(device, row.dtype, row.k, row.n) {}

  CheckResult check(int launch, const MoePairs& pairs, int rank, const Matrix& out) {
    const LayerData data = data_of(row_, launch);
    const std::vector<float> weights = weights_of(data.weights, rank, pairs.ids(rank).size());
    const LayerRule rule{data.x.kind, data.first_products,      data.second_products, rounding_of(row_.dtype),
                         hops_,       bound_of(row_.moe->clamp)};
    CheckResult worst;
    for (int64_t first = 0; first < pairs.tokens(rank); first += size_.tokens) {
      const int64_t count = std::min(size_.tokens, pairs.tokens(rank) - first);
      reference_.clear(count);
      add_tokens(data, rule, pairs.ids(rank), weights, rank, first, count);
      worst.add(reference_.check(out.rows(first, count), rule));
    }
    return worst;
  }

  static double bytes(const Row& row) {
    const LayerSize size = size_of_check(row);
    return size.bytes() +
           allocated_bytes(static_cast<double>(size.rows + 3 * row.n), static_cast<double>(row.k), row.dtype);
  }

 private:
  static LayerSize size_of_check(const Row& row) {
    constexpr int64_t kMostAtOnce = 4096;
    const int64_t tokens = std::clamp<int64_t>(row.moe->tokens, 1, kMostAtOnce);
    return {tokens, std::min(tokens * row.moe->topk, kMostAtOnce), row.k, row.n};
  }

  // Expert by expert: the pairs of `count` tokens.
  void add_tokens(const LayerData& data, const LayerRule& rule, const std::vector<int64_t>& ids,
                  const std::vector<float>& weights, int rank, int64_t first, int64_t count) {
    const int topk = row_.moe->topk;
    std::vector<std::vector<int64_t>> by_expert(row_.moe->experts);
    for (int64_t pair = first * topk; pair < (first + count) * topk; ++pair) {
      if (ids[pair] >= 0) by_expert[ids[pair]].push_back(pair);
    }
    for (int expert = 0; expert < row_.moe->experts; ++expert) {
      const std::vector<int64_t>& own = by_expert[expert];
      if (own.empty()) continue;
      engine_.fill(gate_.view, of(data.gate, expert));
      engine_.fill(up_.view, of(data.up, expert));
      engine_.fill(w2_.view, of(data.w2, expert));
      for (int64_t begin = 0; begin < std::ssize(own); begin += size_.rows) {
        const int64_t rows = std::min(size_.rows, std::ssize(own) - begin);
        ExpertRows some{x_.rows(0, rows), gate_.view, up_.view, w2_.view, {}};
        std::vector<RowSource> sources;
        for (int64_t i = begin; i < begin + rows; ++i) {
          sources.push_back({rank, own[i] / topk});
          some.targets.push_back({own[i] / topk - first, weights[own[i]]});
        }
        engine_.fill_rows(some.x, data.x, sources);
        reference_.add(some, rule);
      }
    }
  }

  const Row& row_;
  DataEngine& engine_;
  const Hops hops_;
  const LayerSize size_;
  LayerReference reference_;
  const Matrix x_;
  const Matrix gate_;
  const Matrix up_;
  const Matrix w2_;
};

struct RankData {
  Matrix x;
  runtime::Buffer ids;
  runtime::Buffer weights;
  Matrix w13;
  Matrix w2;
  Matrix out;  // one row more than tokens at most: nobody writes behind the last token
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
    shape_.max_rows = plan_rows(row_, world_);
    row_.workspace_bytes = moe_layer_workspace_bytes(world_, shape_, row_.dtype);
    const int batch = batch_of(row_, memory());
    const moe::LayerProblem problem{world_.state().shape(), shape_, row_.dtype};
    const runtime::Plan& plan = moe::plan_for(world_.state(), problem, split_);  // before the clock runs
    Checker checker(row_, world_, device_, *engine_);
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
            .once = ranks * static_cast<double>(row_.workspace_bytes) + Checker::bytes(row_)};
  }

  LaunchData make(int launch) {
    LaunchData data{pairs_of(row_, world_, launch), ids_in(launch), {}};
    const LayerData specs = data_of(row_, launch);
    for_each_rank_here(world_, [&](int rank) {
      const std::vector<int64_t>& ids = data.pairs.ids(rank);
      RankData& own = data.ranks.emplace_back(RankData{with_rows(device_, row_.dtype, data.pairs.tokens(rank), row_.k),
                                                       uploaded_ids(device_, ids, data.ids),
                                                       uploaded(device_, weights_of(specs.weights, rank, ids.size())),
                                                       {device_, row_.dtype, local_experts() * 2 * row_.n, row_.k},
                                                       {device_, row_.dtype, local_experts() * row_.k, row_.n},
                                                       {device_, row_.dtype, out_rows(), row_.k}});
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
    });
    moe_layer(world_, shape_, args, {split_});
  }

  void check(Checker& checker, int launch, const LaunchData& data) {
    for_each_rank_here(world_, [&](int rank) {
      const Matrix& out = data.ranks[rank - world_.first_rank()].out;
      row_.check.add(checker.check(launch, data.pairs, rank, out));
      row_.check.wrong += count_touched(*engine_, device_, out, data.pairs.tokens(rank), out_rows());
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
