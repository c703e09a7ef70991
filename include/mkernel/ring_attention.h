// SPDX-License-Identifier: MIT
// mkernel/ring_attention.h — attention over a sequence that is spread over all ranks.
//
//   o = softmax(scale · q kᵀ + mask) v        q of this rank, k and v of all ranks
//
// Each rank has a part of every sequence: rows of q, k and v.  Keys and values travel to the ranks whose queries see
// them, and to no others, while the launch works on those that are there.  Query head h reads the keys of head
// h / (query heads / key heads).  Scores, sums and the result of a rank's queries are fp32 until the end.
//
// On a CPU any dim ≥ 1 and bf16, fp16 or fp32; on a GPU dim is 64, 128 or 256, pointers are 16-byte aligned, strides
// are multiples of 16 bytes below 2^40, bf16 or fp16.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mkernel/export.h"
#include "mkernel/options.h"
#include "mkernel/types.h"
#include "mkernel/world.h"

namespace mk {

// Elements from one batch, row or head to the next.  0: as in a tensor [batch, rows, heads, dim] without gaps.  The
// elements of a head always follow each other.
struct HeadStrides {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t head = 0;
};

// [batch, rows, heads, dim]; who owns it is as with a Tensor.  With strides it is a view: q out of a packed [batch,
// rows, 3, heads, dim], a [rows, batch, heads, dim], a [batch, heads, rows, dim], a few of many heads.  From the
// smallest stride to the largest, each is at least what lies inside it, so elements do not overlap; gaps are neither
// read nor written.  Of one batch, row or head the stride does not count.  Keys and values are copied for other ranks:
// fastest without gaps, slowest where the heads of a row lie apart.
struct HeadTensor {
  void* data = nullptr;
  DType dtype = DType::kBf16;
  int64_t batch = 1;
  int64_t rows = 0;  // of this rank
  int64_t heads = 0;
  int64_t dim = 0;
  HeadStrides strides = {};
};

// Which keys a query sees.
enum class MaskKind {
  kFull,    // all
  kCausal,  // those at its own position and before
};
constexpr const char* name_of(MaskKind mask) { return mask == MaskKind::kFull ? "full" : "causal"; }

struct AttentionMask {
  MaskKind kind = MaskKind::kFull;
  std::optional<int64_t> window = {};  // only with kCausal: no more than so many keys, its own position's among them
};

// Which positions of the sequence a rank has.
enum class SequenceOrder {
  kContiguous,  // rank r has the r-th part
  // Of twice as many parts as there are ranks, rank r has parts r and 2·W-1-r, in this order: with a causal mask all
  // ranks have equally much to do.  Rows are a multiple of two.
  kZigzag,
};
constexpr const char* name_of(SequenceOrder order) {
  return order == SequenceOrder::kContiguous ? "contiguous" : "zigzag";
}

// Each tensor of each rank, and of each call, may have strides of its own.
struct RingAttentionArgs {
  HeadTensor q;                 // [batch, rows, query heads, dim]
  HeadTensor k;                 // [batch, rows, key heads, dim]; query heads is a multiple of key heads
  HeadTensor v;                 // as k
  HeadTensor o;                 // as q, written
  float* lse = nullptr;         // [batch, query heads, rows] or null: the logarithm of each query's sum
  const float* sink = nullptr;  // [query heads] or null: a score that takes part in the sum and has no value
  Stream stream = nullptr;
};

// The same on all ranks.
struct RingAttentionOptions {
  AttentionMask mask = {};
  SequenceOrder order = SequenceOrder::kContiguous;
  std::optional<float> scale = {};  // of scores; empty: 1 / √dim
  Split split = {};                 // empty: chosen for the shape
  // Not empty: sequences of any lengths are packed one after the other into the positions of all ranks, and a query
  // sees keys of its own sequence only.  On the host: where each sequence begins, and then where the last one ends, so
  // 0, …, rows · ranks.  The tensors' batch is 1.
  std::span<const int32_t> cu_seqlens = {};
};

// Launches on every rank of the World that lives in this process; args[i] belongs to the i-th of them.  Returns at
// once.  The first call for a shape allocates its workspace; later calls only launch.  Each packing is a shape.  Two
// runs give the same bits.
MK_API void ring_attention(World& world, std::span<const RingAttentionArgs> args,
                           const RingAttentionOptions& options = {});

// What a workspace depends on.
struct RingAttentionShape {
  int64_t batch = 1;
  int64_t rows = 0;  // of a rank
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t dim = 0;
  DType dtype = DType::kBf16;
};

// Bytes of symmetric memory a rank needs: a few parts of keys and values, and its queries' results in fp32.  They grow
// with the rows of a rank, not with the number of ranks; only signals do.
MK_API int64_t ring_attention_workspace_bytes(const World& world, const RingAttentionShape& shape,
                                              const RingAttentionOptions& options = {});

}  // namespace mk
