// SPDX-License-Identifier: MIT
// mkernel/gemm_ar.h — GEMM+AllReduce: the ranks sum their products, and every rank gets the whole sum.
//
//   rank r:  C_r [M,N] = Σ over ranks of A_q [M,K] · B_q [K,N]
//
// All ranks get the same bits.  See gemm_args.h for the rest.
#pragma once

#include <span>

#include "mkernel/export.h"
#include "mkernel/gemm_args.h"
#include "mkernel/options.h"
#include "mkernel/world.h"

namespace mk {

// How the sum is made.
//   kTwoShot  rows are scattered, reduced by their owners and gathered again: the fewest bytes.  M must be a
//             multiple of the world size.
//   kOneShot  every rank sends its products to its whole node and reduces everything itself: fewer steps,
//             more bytes; for small M, and any M.
//   kAuto     one shot if the result is at most 512 KiB and M is at most 256 or does not divide; else two.
enum class AllReducePath { kAuto, kOneShot, kTwoShot };

struct GemmArOptions {
  Split split = {};  // empty: chosen for the shape; the roles are compute, reduce and, in two shots, intra
  AllReducePath path = AllReducePath::kAuto;
};

// Launches on every rank of the World that lives in this process; args[i] belongs to the i-th of them.
// Returns at once.  The first call for a shape and path allocates its workspace and must come before a
// graph capture; later calls only launch.
MK_API void gemm_ar(World& world, std::span<const GemmArgs> args, const GemmArOptions& options = {});

// Bytes of symmetric memory a rank needs for this shape, in elements (W ranks, R of them a node, N' nodes):
//   two shots  M·N for partial results, 2·(N'-1)·M/W·N for sums between nodes, M·N/R for finished rows
//   one shot   R·M·N for partial results and, with several nodes, N'·M·N for their sums
// and the signals.
MK_API int64_t gemm_ar_workspace_bytes(const World& world, int64_t m, int64_t n, int64_t k, DType dtype,
                                       AllReducePath path = AllReducePath::kAuto);

}  // namespace mk
