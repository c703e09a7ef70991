// SPDX-License-Identifier: MIT
// tools/op_ring_attention.cc — runs attention over many ranks and checks every element of every launch, and the bytes
// that were moved.
#include <memory>
#include <stdexcept>
#include <vector>

#include "attention_check.h"
#include "base/math.h"
#include "data_engine.h"
#include "launches.h"
#include "matrix_memory.h"
#include "mkernel/ring_attention.h"
#include "operators.h"
#include "ops/attention/ring_attention_targets.h"
#include "untouched.h"
#include "usage.h"

namespace mk::tools {
namespace {

constexpr int64_t kBehind = 1;  // rows behind each output that nobody may write

AttentionSize size_of(const Row& row) {
  const AttentionFields& fields = *row.attention;
  return {fields.batch, fields.seq, fields.heads, fields.kv_heads, row.k, fields.scale, fields.mask};
}

int64_t parts_of(SequenceOrder order, int ranks) { return order == SequenceOrder::kZigzag ? 2 * ranks : ranks; }

// Pairs of a query and a key that it sees, of one sequence and head.
double pairs_seen(const AttentionSize& size) {
  const auto seq = static_cast<double>(size.seq);
  if (size.mask.kind == MaskKind::kFull) return seq * seq;
  const auto most = static_cast<double>(size.most_seen());
  return most * (most + 1) / 2 + (seq - most) * most;
}

Row start_attention_row(World& world, const RunRequest& request) {
  Row row = start_row("ring_attention", world, request);
  const AttentionDefaults& defaults = attention_defaults_of(world.device());
  const int64_t parts = parts_of(request.layout, world.size());
  const int64_t heads = request.heads.value_or(defaults.heads);
  const bool divides = heads % defaults.kv_heads == 0;
  row.k = request.head_dim.value_or(defaults.head_dim);
  row.attention = {.batch = request.batch.value_or(1),
                   .seq = request.seq.value_or(round_up(defaults.seq, parts)),
                   .heads = heads,
                   .kv_heads = request.kv_heads.value_or(divides ? defaults.kv_heads : heads),
                   .mask = request.mask,
                   .layout = request.layout,
                   .scale = request.scale.value_or(0),
                   .sink = request.sink};
  AttentionFields& fields = *row.attention;
  if (!request.scale && row.k >= 1) fields.scale = scale_or_default({}, row.k);
  check_same_flags(row, request.split, world);
  constexpr int64_t kMostRows = int64_t{1} << 30;  // of a rank
  const bool is_zigzag = request.layout == SequenceOrder::kZigzag;
  check_usage(fields.seq >= 1 && fields.seq % parts == 0 && fields.seq / world.size() < kMostRows,
              "--seq is {}; it must be a multiple of {}, {}, and below 2^30 for each rank", fields.seq, parts,
              is_zigzag ? "twice the number of ranks" : "the number of ranks");
  check_usage(!request.scale || (fields.scale >= kLeastScale && fields.scale <= kMostScale),
              "--scale is {}; it must be {} to {}, so that results can be checked", fields.scale, kLeastScale,
              kMostScale);
  row.n = fields.seq;
  return row;
}

// Rows of one rank, all heads of a token in each; with more rows behind them.
struct Heads {
  Heads(runtime::Device& device, const RingAttentionShape& shape, int64_t heads, int64_t behind = 0)
      : matrix(device, shape.dtype, shape.batch * shape.rows + behind, heads * shape.dim),
        view{matrix.view.data, shape.dtype, shape.batch, shape.rows, heads, shape.dim} {}

  Matrix matrix;
  HeadTensor view;
};

struct RankData {
  Heads q, k, v, o;
  Matrix lse;
  runtime::Buffer sink;
};

using LaunchData = std::vector<RankData>;  // of the ranks that are here

class Runner {
 public:
  Runner(Row& row, World& world, const Split& split)
      : row_(row),
        world_(world),
        device_(world.state().device()),
        engine_(make_data_engine(device_)),
        checker_(make_attention_checker(device_)),
        fields_(*row.attention),
        shape_{fields_.batch, fields_.seq / world.size(), fields_.heads, fields_.kv_heads, row.k, row.dtype},
        options_{fields_.mask, fields_.layout, fields_.scale, split} {}

  void run() {
    row_.workspace_bytes = ring_attention_workspace_bytes(world_, shape_, options_);  // refuses a bad shape
    row_.m = shape_.batch * shape_.heads * shape_.rows;
    const AttentionSize size = size_of(row_);
    const double products = 2 * 2.0 * static_cast<double>(size.batch * size.heads * size.dim);
    row_.attention->flops = products * pairs_seen(size) / world_.size();
    const int batch = batch_of(row_, memory());
    const attention::Problem problem{world_.state().shape(), shape_, options_.mask, options_.order, options_.scale};
    const runtime::Plan& plan = attention::plan_for(world_.state(), problem, options_.split);  // before the clock runs
    run_in_batches(
        row_, world_, batch, [&](int launch) { return make(launch); }, [&](const LaunchData& data) { queue(data); },
        [&](int launch, const LaunchData& data) { check(launch, data); });
    count_traffic(row_, world_, plan);
    check_traffic(plan);
    merge(row_, world_);
  }

 private:
  AttentionValues values_of(int launch) const { return attention_values_for(size_of(row_), row_.seed, launch); }
  Shard shard_of(int rank) const { return {options_.order, world_.size(), rank, shape_.rows}; }
  const RankData& of_rank(const LaunchData& data, int rank) const { return data[rank - world_.first_rank()]; }

  LaunchMemory memory() const {
    const auto tensor = [&](int64_t heads, int64_t behind) {
      return allocated_bytes(static_cast<double>(shape_.batch * shape_.rows + behind),
                             static_cast<double>(heads * shape_.dim), shape_.dtype);
    };
    const double lse = allocated_bytes(static_cast<double>(shape_.batch * shape_.heads + kBehind),
                                       static_cast<double>(shape_.rows), DType::kFp32);
    const double sink = allocated_bytes(1, static_cast<double>(shape_.heads), DType::kFp32);
    const double ranks = world_.size();
    const double of_rank =
        tensor(shape_.heads, 0) + tensor(shape_.heads, kBehind) + 2 * tensor(shape_.kv_heads, 0) + lse + sink;
    return {.per_launch = ranks * of_rank,
            .once = ranks * static_cast<double>(row_.workspace_bytes) +
                    checker_->bytes(size_of(row_), shape_.rows, shape_.dtype)};
  }

  LaunchData make(int launch) {
    LaunchData data;
    const AttentionValues values = values_of(launch);
    std::vector<float> sinks;
    for (int64_t head = 0; head < shape_.heads; ++head) sinks.push_back(sink_value(values, head));
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own =
          data.emplace_back(RankData{{device_, shape_, shape_.heads},
                                     {device_, shape_, shape_.kv_heads},
                                     {device_, shape_, shape_.kv_heads},
                                     {device_, shape_, shape_.heads, kBehind},
                                     {device_, DType::kFp32, shape_.batch * shape_.heads + kBehind, shape_.rows},
                                     uploaded(device_, sinks)});
      const Shard shard = shard_of(rank);
      checker_->fill(own.q.view, AttentionTensor::kQueries, values, shard, 0);
      checker_->fill(own.k.view, AttentionTensor::kKeys, values, shard, 0);
      checker_->fill(own.v.view, AttentionTensor::kValues, values, shard, 0);
      engine_->poison(own.o.matrix.view);
      engine_->poison(own.lse.view);
    });
    return data;
  }

  void queue(const LaunchData& data) {
    std::vector<RingAttentionArgs> args;
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = of_rank(data, rank);
      args.push_back({.q = own.q.view,
                      .k = own.k.view,
                      .v = own.v.view,
                      .o = own.o.view,
                      .lse = own.lse.memory.as<float>(),
                      .sink = fields_.sink ? own.sink.as<float>() : nullptr,
                      .stream = world_.rank_stream(rank)});
    });
    ring_attention(world_, args, options_);
  }

  void check(int launch, const LaunchData& data) {
    const AttentionValues values = values_of(launch);
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = of_rank(data, rank);
      const CheckedAttention checked{values, shard_of(rank), fields_.mask.kind, fields_.scale,
                                     fields_.sink ? SinkUse::kGiven : SinkUse::kNone};
      const AttentionTally tally = checker_->check(checked, own.o.view, own.lse.memory.as<float>());
      row_.check.add(CheckResult::of(tally.o));
      row_.check.add(CheckResult::of(tally.lse));
      for (const Matrix* output : {&own.o.matrix, &own.lse}) {
        const int64_t end = output->view.rows;
        row_.check.wrong += count_touched(*engine_, device_, *output, end - kBehind, end);
      }
    });
  }

  // Throws unless the ranks here moved what the mask asks for: a row to those that see it, once.
  void check_traffic(const runtime::Plan& plan) const {
    const auto& layout = plan.layout<attention::Layout>();
    const auto launches = static_cast<uint64_t>(row_.launches);
    for_each_rank_here(world_, [&](int rank) {
      const uint64_t nvlink = plan.nvlink_bytes(rank);
      const uint64_t network = world_.network_stats(rank).bytes;
      const uint64_t nvlink_asked = launches * attention::nvlink_bytes(layout, rank);
      const uint64_t network_asked = launches * attention::network_bytes(layout, rank);
      if (nvlink == nvlink_asked && network == network_asked) return;
      throw std::runtime_error(
          fmt::format("rank {} moved {} bytes over NVLink and {} over the network; its mask asks for {} and {}", rank,
                      nvlink, network, nvlink_asked, network_asked));
    });
  }

  Row& row_;
  World& world_;
  runtime::Device& device_;
  const std::unique_ptr<DataEngine> engine_;
  const std::unique_ptr<AttentionChecker> checker_;
  const AttentionFields fields_;
  const RingAttentionShape shape_;
  const RingAttentionOptions options_;
};

}  // namespace

Row run_ring_attention(World& world, const RunRequest& request) {
  Row row = start_attention_row(world, request);
  Runner(row, world, request.split).run();
  return row;
}

}  // namespace mk::tools
