// SPDX-License-Identifier: MIT
// bench/bench_case.h — one problem of one operator in one world, and the bytes its ranks must send.
#pragma once

#include <cstdint>

#include "core/world_shape.h"
#include "mkernel/ring_attention.h"
#include "mkernel/types.h"

namespace mk::bench {

enum class OpKind { kAgGemm, kGemmRs, kGemmAr, kMoeDispatchGemm, kMoeLayer, kRingAttention };

constexpr OpKind kGemmKinds[] = {OpKind::kAgGemm, OpKind::kGemmRs, OpKind::kGemmAr};
constexpr OpKind kMoeKinds[] = {OpKind::kMoeDispatchGemm, OpKind::kMoeLayer};
constexpr OpKind kAttentionKinds[] = {OpKind::kRingAttention};
constexpr OpKind kOpKinds[] = {OpKind::kAgGemm,          OpKind::kGemmRs,   OpKind::kGemmAr,
                               OpKind::kMoeDispatchGemm, OpKind::kMoeLayer, OpKind::kRingAttention};

constexpr const char* name_of(OpKind op) {
  switch (op) {
    case OpKind::kAgGemm: return "ag_gemm";
    case OpKind::kGemmRs: return "gemm_rs";
    case OpKind::kGemmAr: return "gemm_ar";
    case OpKind::kMoeDispatchGemm: return "moe_dispatch_gemm";
    case OpKind::kMoeLayer: return "moe_layer";
    case OpKind::kRingAttention: return "ring_attention";
  }
  return "unknown";
}

constexpr bool is_moe(OpKind op) { return op == OpKind::kMoeDispatchGemm || op == OpKind::kMoeLayer; }
constexpr bool is_gemm(OpKind op) { return op == OpKind::kAgGemm || op == OpKind::kGemmRs || op == OpKind::kGemmAr; }

// Inputs are there in so many sets, which take turns.
constexpr int kInputSets = 3;

// What only a mixture of experts has.
struct MoeSize {
  int64_t tokens = 0;  // of each rank
  int experts = 0;     // of the world
  int topk = 0;
};

// What only attention has.
struct AttentionSize {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  AttentionMask mask;
  SequenceOrder order = SequenceOrder::kContiguous;
};

// M, N, K are those of a rank's product: M×N×K each, also where K or N is a slice of a larger matrix.  Of a mixture of
// experts M is the rows that a rank gets on average, N the columns of an expert, or of its gate, and K the elements of
// a token.  Of attention M is a rank's part of the sequence, N the whole sequence, and K the elements of a head.
struct BenchCase {
  OpKind op = OpKind::kAgGemm;
  WorldShape world;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kBf16;
  MoeSize moe = {};
  AttentionSize attention = {};

  // Rows of A a rank brings (ag_gemm), rows of C it keeps (gemm_rs, gemm_ar).
  constexpr int64_t shard_rows() const { return m / world.size(); }
  constexpr int64_t shard_bytes() const { return shard_rows() * (op == OpKind::kAgGemm ? k : n) * size_of(dtype); }
  // A layer of experts has three products: of gate, of up and of w2.  Attention has two for each head; with a causal
  // mask about half of them is left.
  constexpr double flops_per_rank() const {
    const double one = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    if (op == OpKind::kMoeLayer) return 3 * one;
    if (op != OpKind::kRingAttention) return one;
    return 2 * one * static_cast<double>(attention.heads) / (attention.mask.kind == MaskKind::kCausal ? 2 : 1);
  }
};

// Sent by one rank; the same for all of them, but for mixtures of experts and attention: see moe_case.h and
// attention_case.h.
struct Traffic {
  int64_t nvlink_bytes = 0;
  int64_t network_bytes = 0;
};

// The fewest bytes that do it, with every shard crossing a rail once:
//
//   ag_gemm   a shard goes to the N-1 rail peers; what a rank brought and what its rails brought it, N
//             shards, go to R-1 peers of the node
//   gemm_rs   the same way back: a rank gives R-1 peers what they sum, N shards each, and the node's sum of
//             a shard to each of N-1 rail peers
//   gemm_ar   the scatter, then the gather
constexpr Traffic gemm_traffic_of(const BenchCase& c) {
  const int64_t rounds = c.op == OpKind::kGemmAr ? 2 : 1;
  return {rounds * c.world.nodes * (c.world.ranks - 1) * c.shard_bytes(),
          rounds * (c.world.nodes - 1) * c.shard_bytes()};
}

// Of any operator.
Traffic traffic_of(const BenchCase& c);

}  // namespace mk::bench
