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
};

inline Operands operands_of(const MoeDispatchGemmArgs& args) {
  return {args.x.rows,      args.topk_idx.type, args.topk_weight != nullptr, args.w, args.w_order, args.y, args.origins,
          args.expert_rows, args.expert_ends};
}

}  // namespace mk::moe
