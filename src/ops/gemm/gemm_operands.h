// SPDX-License-Identifier: MIT
// ops/gemm/gemm_operands.h — the tensors and options of one rank in a launch of any GEMM operator.
#pragma once

#include "mkernel/ag_gemm.h"
#include "mkernel/gemm_args.h"
#include "mkernel/types.h"

namespace mk::gemm {

struct GemmOperands {
  Tensor a;
  Tensor b;
  Tensor c;
  BOrder b_order = BOrder::kKN;
  const void* bias = nullptr;  // [n]; null: none
  Activation activation = Activation::kNone;
};

inline GemmOperands operands_of(const GemmArgs& args) { return {args.a, args.b, args.c, args.b_order}; }
inline GemmOperands operands_of(const AgGemmArgs& args) {
  return {args.a, args.b, args.c, args.b_order, args.bias.data, args.activation};
}

}  // namespace mk::gemm
