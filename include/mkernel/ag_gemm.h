// SPDX-License-Identifier: MIT
// mkernel/ag_gemm.h — AllGather+GEMM: every rank multiplies the rows of all ranks with its own B.
//
//   rank r:  C_r [M,N] = f(concat(A_0 … A_{W-1}) [M,K] · B_r [K,N] + bias_r)        A_r is [M/W,K]
//
// M is a multiple of the world size.  On a CPU any N, K ≥ 1 and bf16, fp16 or fp32; on a GPU N and K
// are multiples of 8, pointers are 16-byte aligned, bf16 or fp16.  Sums, bias and f are fp32; the result is
// rounded once.
#pragma once

#include <span>

#include "mkernel/export.h"
#include "mkernel/options.h"
#include "mkernel/types.h"
#include "mkernel/world.h"

namespace mk {

struct AgGemmArgs {
  Tensor a;                                   // [M/W, K], this rank's rows
  Tensor b;                                   // [K, N], or [N, K] if b_order says so
  Tensor c;                                   // [M, N], written
  Tensor bias = {};                           // [1, N]; no data: none
  BOrder b_order = BOrder::kKN;               // the same on all ranks, as is f
  Activation activation = Activation::kNone;  // f
  // Null is CUDA's default stream (types.h).  A rank's launches must follow each other: use the same stream for it in
  // every call, or order the streams with events.  Every stream takes one of the GPU's 32 hardware queues; a World
  // leaves eight of them to others.
  Stream stream = nullptr;
};

struct AgGemmOptions {
  Split split = {};    // empty: chosen for the shape
  TileSize tile = {};  // on a GPU; those that exist are in the error of a wrong one
};

// Launches on every rank of the World that lives in this process; args[i] belongs to the i-th of them.
// Returns at once.  The first call for a shape allocates its workspace and must come before a graph
// capture; later calls only launch.
MK_API void ag_gemm(World& world, std::span<const AgGemmArgs> args, const AgGemmOptions& options = {});

// Bytes of symmetric memory a rank needs for this shape: the gathered rows and the signals.
MK_API int64_t ag_gemm_workspace_bytes(const World& world, int64_t m, int64_t n, int64_t k, DType dtype);

}  // namespace mk
