// SPDX-License-Identifier: MIT
// tools/op_moe_dispatch_gemm.cc — runs MoE dispatch+GEMM and checks every element, origin and count of every launch,
// and the bytes that were moved.
#include <algorithm>
#include <memory>
#include <vector>

#include "data_engine.h"
#include "launches.h"
#include "matrix_memory.h"
#include "mkernel/moe.h"
#include "moe_run.h"
#include "operators.h"
#include "ops/moe/moe_targets.h"
#include "untouched.h"
#include "usage.h"

namespace mk::tools {
namespace {

enum : uint64_t { kTensorX, kTensorW };

template <class T>
std::vector<T> downloaded(runtime::Device& device, const runtime::Buffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  device.download(values.data(), buffer.as(), values.size() * sizeof(T));
  return values;
}

float weight_of(int64_t pair) { return static_cast<float>(pair % 7) - 3; }

struct RankData {
  Matrix x;
  runtime::Buffer ids;  // of 32 bits in every other launch
  runtime::Buffer weights;
  Matrix w;
  Matrix y;
  runtime::Buffer origins;
  runtime::Buffer expert_rows;
  runtime::Buffer expert_ends;
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
               .n = row.n,
               .experts = row.moe->experts,
               .topk = row.moe->topk,
               .max_tokens = std::max<int64_t>(row.moe->tokens, 1),
               .max_rows = 1} {}

  void run() {
    row_.workspace_bytes = moe_dispatch_gemm_workspace_bytes(world_, shape_, row_.dtype);  // refuses a bad shape
    set_rows(row_, world_, shape_);
    row_.workspace_bytes = moe_dispatch_gemm_workspace_bytes(world_, shape_, row_.dtype);
    const int batch = batch_of(row_, memory());
    const moe::Problem problem{world_.state().shape(), shape_, row_.dtype};
    const runtime::Plan& plan = moe::plan_for(world_.state(), problem, split_);  // before the clock runs
    run_in_batches(
        row_, world_, batch, [&](int launch) { return make(launch); }, [&](const LaunchData& data) { queue(data); },
        [&](int launch, const LaunchData& data) { check(launch, data); });
    count_traffic(row_, world_, plan);
    check_traffic(row_, world_, plan,
                  [&](const MoePairs& pairs, int rank) { return pairs.traffic(rank, token_bytes(row_)); });
    merge(row_, world_);
  }

 private:
  int local_experts() const { return shape_.experts / world_.size(); }
  DataSpec spec_of(int launch, uint64_t tensor, int rank) const {
    DataSpec spec = data_for(row_.k, row_.seed, launch);
    spec.tensor = tensor;
    spec.rank = rank;
    return spec;
  }

  LaunchMemory memory() const {
    const double ranks = world_.size();
    const double x = allocated_bytes(static_cast<double>(shape_.max_tokens), row_.k, row_.dtype);
    const double w = allocated_bytes(static_cast<double>(local_experts()) * row_.k, row_.n, row_.dtype);
    const double y = allocated_bytes(static_cast<double>(shape_.max_rows), row_.n, row_.dtype);
    const double gathered = allocated_bytes(static_cast<double>(shape_.max_rows), row_.k, row_.dtype);
    const double words = 16.0 * static_cast<double>(shape_.max_rows + shape_.max_tokens * shape_.topk);
    return {.per_launch = ranks * (x + w + y + words),
            .once = ranks * static_cast<double>(row_.workspace_bytes) + gathered + w};
  }

  LaunchData make(int launch) {
    LaunchData data{pairs_of(row_, world_, launch), ids_in(launch), {}};
    for_each_rank_here(world_, [&](int rank) {
      const std::vector<int64_t>& ids = data.pairs.asked_ids(rank);
      std::vector<float> weights(ids.size());
      for (size_t pair = 0; pair < ids.size(); ++pair) weights[pair] = weight_of(static_cast<int64_t>(pair));
      const size_t counts = local_experts() * sizeof(int32_t);
      RankData& own = data.ranks.emplace_back(RankData{with_rows(device_, row_.dtype, data.pairs.tokens(rank), row_.k),
                                                       uploaded_ids(device_, ids, data.ids),
                                                       uploaded(device_, weights),
                                                       {device_, row_.dtype, local_experts() * row_.k, row_.n},
                                                       {device_, row_.dtype, shape_.max_rows, row_.n},
                                                       {device_, shape_.max_rows * sizeof(MoeOrigin)},
                                                       {device_, counts},
                                                       {device_, counts},
                                                       {device_, data.pairs, rank, row_}});
      if (own.x.view.rows > 0) engine_->fill(own.x.view, spec_of(launch, kTensorX, rank));
      engine_->fill(own.w.view, spec_of(launch, kTensorW, rank));
      engine_->poison(own.y.view);
    });
    return data;
  }

  void queue(const LaunchData& data) {
    std::vector<MoeDispatchGemmArgs> args;
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = data.ranks[rank - world_.first_rank()];
      args.push_back({.x = own.x.view,
                      .topk_idx = {own.ids.as(), data.ids},
                      .topk_weight = own.weights.as<float>(),
                      .w = own.w.view,
                      .y = own.y.view,
                      .origins = own.origins.as<int32_t>(),
                      .expert_rows = own.expert_rows.as<int32_t>(),
                      .expert_ends = own.expert_ends.as<int32_t>(),
                      .stream = world_.rank_stream(rank)});
      own.told.ask(args.back());
    });
    moe_dispatch_gemm(world_, shape_, args, {split_});
  }

  // Makes the inputs again, so that a launch that spoilt its inputs is found out as well.
  void check(int launch, const LaunchData& data) {
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = data.ranks[rank - world_.first_rank()];
      check_tables(data.pairs, rank, own);
      row_.check.wrong += own.told.count_wrong(device_, data.pairs, rank);
      Matrix w(device_, row_.dtype, local_experts() * row_.k, row_.n);
      engine_->fill(w.view, spec_of(launch, kTensorW, rank));
      int64_t first = 0;
      for (int i = 0; i < local_experts(); ++i) {
        const std::vector<MoePair>& pairs = data.pairs.of_expert(rank * local_experts() + i);
        const auto rows = std::ssize(pairs);
        if (rows == 0) continue;
        const Matrix gathered(device_, row_.dtype, rows, row_.k);
        std::vector<RowSource> sources;
        for (const MoePair& one : pairs) sources.push_back({one.rank, one.pair / shape_.topk});
        engine_->fill_rows(gathered.view, spec_of(launch, kTensorX, 0), sources);
        row_.check.add(engine_->check_gemm(gathered.view, w.rows(i * row_.k, row_.k), own.y.rows(first, rows),
                                           spec_of(launch, kTensorX, 0).kind));
        first += rows;
      }
      row_.check.wrong += count_touched(*engine_, device_, own.y, first, shape_.max_rows);
    });
  }

  void check_tables(const MoePairs& pairs, int rank, const RankData& own) {
    const auto rows = downloaded<int32_t>(device_, own.expert_rows);
    const auto ends = downloaded<int32_t>(device_, own.expert_ends);
    const auto origins = downloaded<MoeOrigin>(device_, own.origins);
    int64_t row = 0;
    for (int i = 0; i < local_experts(); ++i) {
      const std::vector<MoePair>& of = pairs.of_expert(rank * local_experts() + i);
      for (const MoePair& one : of) {
        const MoeOrigin& seen = origins[row++];
        row_.check.wrong += seen.rank != one.rank || seen.pair != one.pair || seen.weight != weight_of(one.pair);
      }
      row_.check.wrong += rows[i] != std::ssize(of) || ends[i] != row;
    }
  }

  Row& row_;
  World& world_;
  runtime::Device& device_;
  const std::unique_ptr<DataEngine> engine_;
  const Split split_;
  MoeShape shape_;
};

}  // namespace

Row run_moe_dispatch_gemm(World& world, const RunRequest& request) {
  Row row = start_moe_row("moe_dispatch_gemm", world, request);
  check_usage(row.k <= kLongestExactSum, "--hidden is {}; longer sums than {} cannot be checked", row.k,
              kLongestExactSum);
  Runner(row, world, request.split).run();
  return row;
}

}  // namespace mk::tools
