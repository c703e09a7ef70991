// SPDX-License-Identifier: MIT
// ops/moe/moe_operands.h — what one rank brings to a launch of a mixture of experts.
#pragma once

#include <cstdint>

#include "mkernel/moe.h"

namespace mk::moe {

struct Operands {
  int64_t tokens = 0;
  MoeIds::Type ids = MoeIds::Type::kInt64;
  bool has_weights = false;
  Tensor w;
  BOrder w_order = BOrder::kKN;
  Tensor y;
  int32_t* origins = nullptr;
  int32_t* expert_rows = nullptr;
  int32_t* expert_ends = nullptr;
  int32_t* load = nullptr;
  int32_t* routed_idx = nullptr;
  int32_t* dropped = nullptr;
};

inline Operands operands_of(const MoeDispatchGemmArgs& args) {
  return {.tokens = args.x.rows,
          .ids = args.topk_idx.type,
          .has_weights = args.topk_weight != nullptr,
          .w = args.w,
          .w_order = args.w_order,
          .y = args.y,
          .origins = args.origins,
          .expert_rows = args.expert_rows,
          .expert_ends = args.expert_ends,
          .load = args.load,
          .routed_idx = args.routed_idx,
          .dropped = args.dropped};
}

}  // namespace mk::moe
