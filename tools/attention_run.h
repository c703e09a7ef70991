// SPDX-License-Identifier: MIT
// tools/attention_run.h — what the runs of attention's two directions share: the row, shapes, tensors of a rank, and
// the check of what was moved.
#pragma once

#include <cstdint>
#include <functional>

#include "attention_values.h"
#include "matrix_memory.h"
#include "mkernel/ring_attention.h"
#include "mkernel/world.h"
#include "ops/attention/ring_attention_problem.h"
#include "report.h"
#include "request.h"
#include "runtime/plan.h"

namespace mk::tools {

constexpr int64_t kBehind = 1;  // rows behind each output that nobody may write

// The request's Row; all processes have the same.
Row start_attention_row(World& world, const RunRequest& request);

// Sets how many queries a rank has, and how many operations its launch takes.  For a shape that the operator accepts.
void set_amounts(Row& row, const World& world);

AttentionSize attention_size_of(const Row& row);
RingAttentionShape attention_shape_of(const Row& row, const World& world);
RingAttentionOptions attention_options_of(const Row& row, const Split& split);
attention::Problem attention_problem_of(const Row& row, const World& world);

// The part of a sequence that a rank has.
Shard shard_of(const Row& row, const World& world, int rank);

// Rows of one rank, all heads of a token in each; with more rows behind them.
struct Heads {
  Heads(runtime::Device& device, const RingAttentionShape& shape, int64_t heads, int64_t behind = 0);
  static double bytes(const RingAttentionShape& shape, int64_t heads, int64_t behind = 0);

  Matrix matrix;
  HeadTensor view;
};

// Packed sequences where both the host and the device can read them.
class HeldPacking {
 public:
  HeldPacking(runtime::Device& device, const std::vector<int32_t>& cu_seqlens);

  PackedSequences view() const { return {memory_.as<int32_t>(), sequences_}; }

 private:
  runtime::Buffer memory_;
  int sequences_;
};

// Bytes that a rank moves.
struct AttentionTraffic {
  uint64_t nvlink = 0;
  uint64_t network = 0;
};

// Throws unless the ranks here moved `asked(rank)` in each launch: what the mask asks for.
void check_traffic(const Row& row, const World& world, const runtime::Plan& plan,
                   const std::function<AttentionTraffic(int rank)>& asked);

}  // namespace mk::tools
