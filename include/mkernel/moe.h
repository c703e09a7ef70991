// SPDX-License-Identifier: MIT
// mkernel/moe.h — mixture of experts: tokens travel to the ranks of their experts, which multiply them.
//
// Expert e lives on rank e / (experts / world size).  Each token names topk experts; an id of -1 names none.  Rank r
// gets a row for every pair of a token, of any rank, and a slot of it that names one of r's experts.  Its rows are
// grouped by expert.  The order inside a group is fixed by the shape, so two runs give the same rows and bits: in one
// node it is by the token's rank, token and slot.  Between nodes tokens of the expert's own node come first, then those
// of other nodes, by ranges of so many tokens, because that is how they arrive.  `origins` says which row is whose.
//
//   y [rows, n] = x rows · w of their expert         rows: as many as were routed to this rank, at most max_rows
//
// Routing is worked out inside the launch.  The number of tokens may differ between ranks and launches, and be 0.
// On a CPU any hidden, n ≥ 1 and bf16, fp16 or fp32; on a GPU hidden and n are multiples of 8, x, w, y and origins are
// 16-byte aligned, bf16 or fp16, and there are at most 1024 experts.
#pragma once

#include <cstdint>
#include <span>

#include "mkernel/export.h"
#include "mkernel/options.h"
#include "mkernel/types.h"
#include "mkernel/world.h"

namespace mk {

// What happens if a rank would get more than max_rows rows, of all its experts together.
enum class MoeOverflow {
  kRefuse,  // the launch is refused, see moe_dispatch_gemm
  // The rank gets max_rows of them: all pairs of slot 0, then of slot 1, and so on; in the slot that no longer fits, by
  // rank, then by token.  Pairs that are dropped add nothing to a result; weights of the others stay as they are.
  kDrop,
};

// What does not change from launch to launch; the same on all ranks.
struct MoeShape {
  int64_t hidden = 0;      // elements of a token
  int64_t n = 0;           // columns of the result
  int experts = 0;         // of the world: a multiple of its size
  int topk = 0;            // slots of a token: at most `experts`, and at most 64
  int64_t max_tokens = 0;  // that a rank may bring
  int64_t max_rows = 0;    // that a rank may get
  MoeOverflow overflow = MoeOverflow::kRefuse;
};

// Expert ids, [tokens, topk]: -1 or 0 … experts-1.
struct MoeIds {
  enum class Type { kInt32, kInt64 };
  const void* data = nullptr;
  Type type = Type::kInt64;
};

struct MoeDispatchGemmArgs {
  Tensor x;                            // [tokens, hidden]; tokens is at most max_tokens
  MoeIds topk_idx;                     // [tokens, topk]
  const float* topk_weight = nullptr;  // [tokens, topk], only passed on into `origins`; null: ones
  Tensor w;                            // [local experts · hidden, n], or [local experts · n, hidden] by w_order
  Tensor y;                            // [max_rows, n]; only the first rows are written, as many as there are
  int32_t* origins = nullptr;          // [max_rows, 4] or null: see MoeOrigin
  int32_t* expert_rows = nullptr;      // [local experts] or null: rows of each expert
  int32_t* expert_ends = nullptr;      // [local experts] or null: where each expert's rows end
  int32_t* load = nullptr;             // [local experts] or null: each launch adds the rows that each expert gets
  int32_t* routed_idx = nullptr;       // [tokens, topk] or null: topk_idx with -1 where a pair was dropped; only with
                                       // kDrop, like the next
  int32_t* dropped = nullptr;          // [topk] or null: pairs of each slot that this rank's tokens lost
  BOrder w_order = BOrder::kKN;        // the same on all ranks
  Stream stream = nullptr;
};

// What `origins` holds for a row.
struct MoeOrigin {
  int32_t internal;  // of the library
  int32_t rank;      // of the token
  int32_t pair;      // token · topk + slot
  float weight;      // topk_weight of the pair
};

struct MoeDispatchGemmOptions {
  Split split = {};  // empty: chosen; dispatch (on CPUs only), send (between nodes only) and compute are its roles
};

// Launches on every rank of the World that lives in this process; args[i] belongs to the i-th of them.  Returns at
// once.  With kRefuse, if a rank would get more than max_rows rows, no rank writes any output, and World::synchronize
// throws an Error on every rank that names the rank, the expert and the number.  An id that names no expert counts as
// -1, and World::synchronize throws on its own rank.  The World goes on.  If several launches since the last
// synchronize were refused, the Error may not name all of them.
MK_API void moe_dispatch_gemm(World& world, const MoeShape& shape, std::span<const MoeDispatchGemmArgs> args,
                              const MoeDispatchGemmOptions& options = {});

// Bytes of symmetric memory a rank needs.
MK_API int64_t moe_dispatch_gemm_workspace_bytes(const World& world, const MoeShape& shape, DType dtype);

}  // namespace mk
