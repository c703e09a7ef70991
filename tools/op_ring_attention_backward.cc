// SPDX-License-Identifier: MIT
// tools/op_ring_attention_backward.cc — runs the backward pass of attention over many ranks and checks every gradient
// of every launch, and the bytes that were moved.
//
// o, which the forward pass would have written, is data like all others; lse is that of the keys and queries.
#include <memory>
#include <vector>

#include "attention_backward_checker.h"
#include "attention_check.h"
#include "attention_run.h"
#include "data_engine.h"
#include "launches.h"
#include "mkernel/ring_attention_backward.h"
#include "operators.h"
#include "ops/attention/ring_attention_backward_targets.h"
#include "untouched.h"

namespace mk::tools {
namespace {

struct RankData {
  Heads q, k, v, o, dout;
  runtime::Buffer lse;
  runtime::Buffer sink;
  Heads dq, dk, dv;
  Matrix dsink;  // one row
};

struct LaunchData {
  std::vector<float> log_sums;  // of all ranks: [batch, heads, seq]
  std::vector<RankData> ranks;  // that are here
};

class Runner {
 public:
  Runner(Row& row, World& world, const Split& split)
      : row_(row),
        world_(world),
        device_(world.state().device()),
        engine_(make_data_engine(device_)),
        filler_(make_attention_checker(device_)),
        fields_(*row.attention),
        shape_(attention_shape_of(row, world)),
        options_(attention_options_of(row, split)),
        packing_(device_, fields_.cu_seqlens) {}

  void run() {
    row_.workspace_bytes = ring_attention_backward_workspace_bytes(world_, shape_, options_);  // refuses a bad shape
    set_amounts(row_, world_);
    const int batch = batch_of(row_, memory());
    const runtime::Plan& plan = attention::backward_plan_for(world_.state(), attention_problem_of(row_, world_),
                                                             options_.split);  // before the clock runs
    AttentionBackwardChecker checker(device_, attention_size_of(row_), shape_.rows, shape_.dtype);
    run_in_batches(
        row_, world_, batch, [&](int launch) { return make(checker, launch); },
        [&](const LaunchData& data) { queue(data); },
        [&](int launch, const LaunchData& data) { check(checker, launch, data); });
    count_traffic(row_, world_, plan);
    const auto& layout = plan.layout<attention::KeptBackwardLayout>();
    check_traffic(row_, world_, plan, [&](int rank) {
      return AttentionTraffic{attention::backward_nvlink_bytes(layout, rank),
                              attention::backward_network_bytes(layout, rank)};
    });
    merge(row_, world_);
  }

 private:
  const RankData& of_rank(const LaunchData& data, int rank) const { return data.ranks[rank - world_.first_rank()]; }

  CheckedAttention checked_of(int launch, int rank) const {
    return {attention_values_for(attention_size_of(row_), row_.seed, launch),
            shard_of(row_, world_, rank),
            fields_.mask.kind,
            fields_.scale,
            fields_.sink ? SinkUse::kGiven : SinkUse::kNone,
            packing_.view()};
  }

  LaunchMemory memory() const {
    const auto floats = [](int64_t count) { return allocated_bytes(1, static_cast<double>(count), DType::kFp32); };
    const double ranks = world_.size();
    const double inputs = 3 * Heads::bytes(shape_, shape_.heads) + 2 * Heads::bytes(shape_, shape_.kv_heads) +
                          floats(shape_.batch * shape_.heads * shape_.rows) + floats(shape_.heads);
    const double outputs = Heads::bytes(shape_, shape_.heads, kBehind) +
                           2 * Heads::bytes(shape_, shape_.kv_heads, kBehind) + floats((1 + kBehind) * shape_.heads);
    const AttentionSize size = attention_size_of(row_);
    return {.per_launch = ranks * (inputs + outputs) + floats(shape_.batch * shape_.heads * size.seq),
            .once = ranks * static_cast<double>(row_.workspace_bytes) +
                    AttentionBackwardChecker::bytes(world_.device(), size, shape_.rows, shape_.dtype)};
  }

  // Those of a rank: [batch, heads, rows].
  std::vector<float> log_sums_of(const std::vector<float>& all, int rank) const {
    const Shard shard = shard_of(row_, world_, rank);
    std::vector<float> own;
    for (int64_t head = 0; head < shape_.batch * shape_.heads; ++head) {
      for (int64_t row = 0; row < shape_.rows; ++row) {
        own.push_back(all[head * fields_.seq + shard.position_of(row)]);
      }
    }
    return own;
  }

  LaunchData make(AttentionBackwardChecker& checker, int launch) {
    LaunchData data{checker.log_sums(checked_of(launch, world_.first_rank())), {}};
    const AttentionValues values = checked_of(launch, world_.first_rank()).values;
    std::vector<float> sinks;
    for (int64_t head = 0; head < shape_.heads; ++head) sinks.push_back(backward_sink_value(values, head));
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = data.ranks.emplace_back(RankData{{device_, shape_, shape_.heads},
                                                             {device_, shape_, shape_.kv_heads},
                                                             {device_, shape_, shape_.kv_heads},
                                                             {device_, shape_, shape_.heads},
                                                             {device_, shape_, shape_.heads},
                                                             uploaded(device_, log_sums_of(data.log_sums, rank)),
                                                             uploaded(device_, sinks),
                                                             {device_, shape_, shape_.heads, kBehind},
                                                             {device_, shape_, shape_.kv_heads, kBehind},
                                                             {device_, shape_, shape_.kv_heads, kBehind},
                                                             {device_, DType::kFp32, 1 + kBehind, shape_.heads}});
      fill(own, values, rank);
    });
    return data;
  }

  void fill(const RankData& own, const AttentionValues& values, int rank) {
    const Shard shard = shard_of(row_, world_, rank);
    filler_->fill(own.q.view, AttentionTensor::kQueries, values, shard, 0);
    filler_->fill(own.k.view, AttentionTensor::kKeys, values, shard, 0);
    filler_->fill(own.v.view, AttentionTensor::kValues, values, shard, 0);
    filler_->fill(own.o.view, AttentionTensor::kOutputs, values, shard, 0);
    filler_->fill(own.dout.view, AttentionTensor::kGradients, values, shard, 0);
    for (const Matrix* output : {&own.dq.matrix, &own.dk.matrix, &own.dv.matrix, &own.dsink}) {
      engine_->poison(output->view);
    }
  }

  void queue(const LaunchData& data) {
    std::vector<RingAttentionBackwardArgs> args;
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = of_rank(data, rank);
      args.push_back({.q = own.q.view,
                      .k = own.k.view,
                      .v = own.v.view,
                      .o = own.o.view,
                      .dout = own.dout.view,
                      .lse = own.lse.as<float>(),
                      .sink = fields_.sink ? own.sink.as<float>() : nullptr,
                      .dq = own.dq.view,
                      .dk = own.dk.view,
                      .dv = own.dv.view,
                      .dsink = fields_.sink ? own.dsink.memory.as<float>() : nullptr,
                      .stream = world_.rank_stream(rank)});
    });
    ring_attention_backward(world_, args, options_);
  }

  void check(AttentionBackwardChecker& checker, int launch, const LaunchData& data) {
    for_each_rank_here(world_, [&](int rank) {
      const RankData& own = of_rank(data, rank);
      const float* const dsink = fields_.sink ? own.dsink.memory.as<float>() : nullptr;
      const BackwardTally tally =
          checker.check(checked_of(launch, rank), data.log_sums, {own.dq.view, own.dk.view, own.dv.view, dsink});
      for (const Tally* one : {&tally.dq, &tally.dk, &tally.dv, &tally.dsink}) {
        row_.check.add(CheckResult::of(*one));
      }
      const auto count_from = [&](const Matrix& matrix, int64_t first) {
        row_.check.wrong += count_touched(*engine_, device_, matrix, first, matrix.view.rows);
      };
      for (const Heads* output : {&own.dq, &own.dk, &own.dv}) {
        count_from(output->matrix, output->matrix.view.rows - kBehind);
      }
      count_from(own.dsink, fields_.sink ? 1 : 0);
    });
  }

  Row& row_;
  World& world_;
  runtime::Device& device_;
  const std::unique_ptr<DataEngine> engine_;
  const std::unique_ptr<AttentionChecker> filler_;
  const AttentionFields fields_;
  const RingAttentionShape shape_;
  const RingAttentionOptions options_;
  const HeldPacking packing_;
};

}  // namespace

Row run_ring_attention_backward(World& world, const RunRequest& request) {
  Row row = start_attention_row(world, request);
  Runner(row, world, request.split).run();
  return row;
}

}  // namespace mk::tools
