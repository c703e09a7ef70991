// SPDX-License-Identifier: MIT
// mkernel/gemm_rs.h — GEMM+ReduceScatter: the ranks sum their products, and each keeps its own rows.
//
//   S [M,N] = Σ over ranks of A_r [M,K] · B_r [K,N];        rank r:  C_r [M/W,N] = rows r·M/W … of S
//
// M is a multiple of the world size W.  See gemm_args.h for the rest.
#pragma once

#include <span>

#include "mkernel/export.h"
#include "mkernel/gemm_args.h"
#include "mkernel/options.h"
#include "mkernel/world.h"

namespace mk {

struct GemmRsOptions {
  Split split = {};  // empty: chosen for the shape; compute and reduce are its roles
};

// Launches on every rank of the World that lives in this process; args[i] belongs to the i-th of them.
// Returns at once.  The first call for a shape allocates its workspace and must come before a graph
// capture; later calls only launch.
MK_API void gemm_rs(World& world, std::span<const GemmArgs> args, const GemmRsOptions& options = {});

// Bytes of symmetric memory a rank needs for this shape: M·N elements for the partial results of its node,
// 2·(nodes-1)·M/W·N for sums on their way between nodes, and the signals.
MK_API int64_t gemm_rs_workspace_bytes(const World& world, int64_t m, int64_t n, int64_t k, DType dtype);

}  // namespace mk
