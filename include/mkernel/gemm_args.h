// SPDX-License-Identifier: MIT
// mkernel/gemm_args.h — what a rank brings to an operator that sums products over the ranks.
//
// The ranks share the inner dimension: rank r has A_r [M,K] and B_r [K,N], its slices of a longer K, and
// the result is the sum of A_r · B_r over all ranks.
//
// On a CPU any N, K ≥ 1 and bf16, fp16 or fp32; on a GPU N and K are multiples of 8, pointers are 16-byte
// aligned, bf16 or fp16.  Products are summed in fp32 and rounded to the element type where they leave
// the rank; sums over ranks are fp32, in a fixed order, rounded once a hop: two runs give the same bits.
#pragma once

#include "mkernel/types.h"

namespace mk {

struct GemmArgs {
  Tensor a;                      // [M, K]
  Tensor b;                      // [K, N], or [N, K] by b_order
  Tensor c;                      // written; its rows are the operator's
  BOrder b_order = BOrder::kKN;  // the same on all ranks
  // Null is CUDA's default stream (types.h).  A rank's launches must follow each other: use the same stream for it in
  // every call, or order the streams with events.
  Stream stream = nullptr;
};

}  // namespace mk
