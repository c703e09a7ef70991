// SPDX-License-Identifier: MIT
// bench/attention_steps.cu — see attention_steps.h.
#include "bench/attention_kernel.cuh"
#include "bench/attention_launch.h"
#include "bench/attention_steps.h"
#include "mkernel/error.h"
#include "ops/attention/attention_positions.h"
#include "ops/attention/ring_attention_sm90.h"
#include "runtime/kernel_registry.h"

namespace mk::bench {
namespace {

using Config = attention::TileOf<kAttentionDim>;
using Element = __nv_bfloat16;

constexpr size_t kSharedBytes = sm90::kSharedFor<sm90::AttentionShared<Config, Element>>;
static_assert(kSharedBytes <= sm90::kSharedLimit);

const runtime::KernelLoader kLoad([] {
  load_kernel(reinterpret_cast<const void*>(attention_kernel<Config, Element>), kSharedBytes);
});

int pieces(const BenchCase& c) { return attention::pieces_of(c.attention.order); }
int piece_rows(const BenchCase& c) { return static_cast<int>(c.m / pieces(c)); }
int position_of(const BenchCase& c, int rank, int piece) {
  return attention::piece_of(c.attention.order, c.world.size(), rank, piece) * piece_rows(c);
}

sm90::AttentionMask engine_mask(const BenchCase& c) {
  const AttentionMask& mask = c.attention.mask;
  if (mask.kind == MaskKind::kFull) return {};
  const int64_t window = mask.window.value_or(sm90::AttentionMask::kFar);
  return {static_cast<int>(min_of<int64_t>(sm90::AttentionMask::kFar, window - 1)), 0};
}

// A piece of a rank is a batch of the maps: rows behind it are zeros.
void set_parts(const BenchCase& c, const KeysOfRanks& keys, AttentionParams<Element>& params) {
  const RowsOfHeads rows{keys.ranks * pieces(c), piece_rows(c), c.attention.kv_heads, c.k};
  const CUtensorMap k = rows.map(keys.k, c.dtype, Config::kTileN);
  const CUtensorMap v = rows.map(keys.v, c.dtype, Config::kTileN);
  if (rows.batches > kMostParts) throw Error(ErrorCode::kInvalidArgument, "the keys of a step have too many pieces");
  params.num_parts = params.parts_of_pass = static_cast<int>(rows.batches);
  for (int i = 0; i < params.num_parts; ++i) {
    const int rank = keys.first_rank + i / pieces(c);
    params.parts[i] = {
        .k = k, .v = v, .keys = piece_rows(c), .position = position_of(c, rank, i % pieces(c)), .first_batch = i};
  }
}

}  // namespace

int64_t attention_state_bytes(const BenchCase& c) {
  const int64_t tiles = c.attention.heads * pieces(c) * ceil_div(piece_rows(c), Config::kTileM);
  return tiles * static_cast<int64_t>(sm90::AttentionState<Config>::kBytes);
}

bool sees(const BenchCase& c, int rank, int source) {
  for (int piece = 0; piece < pieces(c); ++piece) {
    for (int of_source = 0; of_source < pieces(c); ++of_source) {
      const sm90::QueryTile queries{.rows = piece_rows(c), .position = position_of(c, rank, piece)};
      const sm90::KeySegment keys{.keys = piece_rows(c), .position = position_of(c, source, of_source)};
      if (sm90::seen_keys(engine_mask(c), queries, keys).blocks<1>() > 0) return true;
    }
  }
  return false;
}

void launch(const BenchCase& c, const AttentionStep& step, cudaStream_t stream) {
  const RowsOfHeads queries{1, c.m, c.attention.heads, c.k};
  AttentionParams<Element> params{};
  params.q = queries.map(step.own.q.data, c.dtype, Config::kTileM);
  set_parts(c, step.keys, params);
  params.output = {.o = static_cast<Element*>(step.own.o.data),
                   .o_of_batch = queries.of_batch(),
                   .o_of_row = queries.of_row(),
                   .o_of_head = queries.of_head(),
                   .lse = step.own.lse,
                   .lse_of_batch = c.attention.heads * c.m,
                   .lse_of_head = c.m,
                   .states = static_cast<float4*>(step.states)};
  params.mask = engine_mask(c);
  params.claimed = step.claimed;
  params.resumes = !step.is_first;
  params.pauses = !step.is_last;
  params.heads = static_cast<int>(c.attention.heads);
  params.group = static_cast<int>(c.attention.heads / c.attention.kv_heads);
  params.heads_at_once = heads_at_once({1, step.keys.ranks * c.m, c.attention.kv_heads, c.k}, c.attention.heads);
  params.queries = piece_rows(c);
  params.pieces = pieces(c);
  for (int piece = 0; piece < pieces(c); ++piece) params.position[piece] = position_of(c, step.rank, piece);
  params.softmax_scale = tools::scale_or_default({}, c.k);
  attention_kernel<Config, Element><<<step.blocks, Config::kThreads, kSharedBytes, stream>>>(params);
  check_cuda(cudaGetLastError(), "launch attention");
}

}  // namespace mk::bench
