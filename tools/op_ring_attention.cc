// SPDX-License-Identifier: MIT
// tools/op_ring_attention.cc — runs attention over many ranks and checks every element of every launch, and the bytes
// that were moved.
#include <memory>
#include <vector>

#include "attention_check.h"
#include "attention_run.h"
#include "data_engine.h"
#include "launches.h"
#include "matrix_memory.h"
#include "mkernel/ring_attention.h"
#include "operators.h"
#include "ops/attention/ring_attention_targets.h"
#include "untouched.h"

namespace mk::tools {
namespace {

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
        shape_(attention_shape_of(row, world)),
        options_(attention_options_of(row, split)),
        packing_(device_, fields_.cu_seqlens) {}

  void run() {
    row_.workspace_bytes = ring_attention_workspace_bytes(world_, shape_, options_);  // refuses a bad shape
    set_amounts(row_, world_);
    const int batch = batch_of(row_, memory());
    const runtime::Plan& plan = attention::plan_for(world_.state(), attention_problem_of(row_, world_),
                                                    options_.split);  // before the clock runs
    run_in_batches(
        row_, world_, batch, [&](int launch) { return make(launch); }, [&](const LaunchData& data) { queue(data); },
        [&](int launch, const LaunchData& data) { check(launch, data); });
    count_traffic(row_, world_, plan);
    const auto& layout = plan.layout<attention::KeptLayout>();
    check_traffic(row_, world_, plan, [&](int rank) {
      return AttentionTraffic{attention::nvlink_bytes(layout, rank), attention::network_bytes(layout, rank)};
    });
    merge(row_, world_);
  }

 private:
  AttentionValues values_of(int launch) const {
    return attention_values_for(attention_size_of(row_), row_.seed, launch);
  }
  const RankData& of_rank(const LaunchData& data, int rank) const { return data[rank - world_.first_rank()]; }

  LaunchMemory memory() const {
    const double lse = allocated_bytes(static_cast<double>(shape_.batch * shape_.heads + kBehind),
                                       static_cast<double>(shape_.rows), DType::kFp32);
    const double sink = allocated_bytes(1, static_cast<double>(shape_.heads), DType::kFp32);
    const double ranks = world_.size();
    const double of_rank = Heads::bytes(shape_, shape_.heads) + Heads::bytes(shape_, shape_.heads, kBehind) +
                           2 * Heads::bytes(shape_, shape_.kv_heads) + lse + sink;
    return {.per_launch = ranks * of_rank,
            .once = ranks * static_cast<double>(row_.workspace_bytes) +
                    checker_->bytes(attention_size_of(row_), shape_.rows, shape_.dtype)};
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
      const Shard shard = shard_of(row_, world_, rank);
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
      const CheckedAttention checked{values,
                                     shard_of(row_, world_, rank),
                                     fields_.mask.kind,
                                     fields_.scale,
                                     fields_.sink ? SinkUse::kGiven : SinkUse::kNone,
                                     packing_.view()};
      const AttentionTally tally = checker_->check(checked, own.o.view, own.lse.memory.as<float>());
      row_.check.add(CheckResult::of(tally.o));
      row_.check.add(CheckResult::of(tally.lse));
      for (const Matrix* output : {&own.o.matrix, &own.lse}) {
        const int64_t end = output->view.rows;
        row_.check.wrong += count_touched(*engine_, device_, *output, end - kBehind, end);
      }
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
  const HeldPacking packing_;
};

}  // namespace

Row run_ring_attention(World& world, const RunRequest& request) {
  if (request.direction == Direction::kBackward) return run_ring_attention_backward(world, request);
  Row row = start_attention_row(world, request);
  Runner(row, world, request.split).run();
  return row;
}

}  // namespace mk::tools
