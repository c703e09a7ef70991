// SPDX-License-Identifier: MIT
// tools/moe_run.h — what the runs of mixtures of experts share: the row, the routing of its launches, ids, and the
// check of what was moved.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "matrix_memory.h"
#include "mkernel/moe.h"
#include "moe_pairs.h"
#include "request.h"
#include "runtime/plan.h"

namespace mk::tools {

// The request's Row; all processes have the same.
Row start_moe_row(const char* op, World& world, const RunRequest& request);

MoePairs pairs_of(const Row& row, const World& world, int launch);
uint64_t token_bytes(const Row& row);

// Goes through the routing of all launches.  Sets how many rows a rank gets, how many of its tokens cross and how many
// of its pairs are dropped, on average; returns how many rows a rank gets at most.
int64_t plan_rows(Row& row, const World& world);
// The same, for a MoeShape or a MoeLayerShape.
template <class Shape>
void set_rows(Row& row, const World& world, Shape& shape) {
  shape.max_rows = plan_rows(row, world);
  if (!row.moe->max_rows) return;
  shape.max_rows = *row.moe->max_rows;
  shape.overflow = MoeOverflow::kDrop;
}

// What a launch tells of pairs that it dropped.  Nothing, if none may be.
class ToldDrops {
 public:
  ToldDrops(runtime::Device& device, const MoePairs& pairs, int rank, const Row& row);

  template <class Args>
  void ask(Args& args) const {
    if (!routed_) return;
    args.routed_idx = routed_->template as<int32_t>();
    args.dropped = dropped_->template as<int32_t>();
  }
  int64_t count_wrong(runtime::Device& device, const MoePairs& pairs, int rank) const;

 private:
  std::optional<runtime::Buffer> routed_, dropped_;
};

// Some tensors have no rows; memory they have all the same.
Matrix with_rows(runtime::Device& device, DType dtype, int64_t rows, int64_t cols);

// Ids have 64 bits, and 32 in every other launch.
MoeIds::Type ids_in(int launch);
runtime::Buffer uploaded_ids(runtime::Device& device, const std::vector<int64_t>& ids, MoeIds::Type type);

// Throws unless the ranks here moved what `traffic` says of all launches: only what is routed moves.
void check_traffic(const Row& row, const World& world, const runtime::Plan& plan,
                   const std::function<MoeTraffic(const MoePairs&, int rank)>& traffic);

}  // namespace mk::tools
