// SPDX-License-Identifier: MIT
// bench/attention_case.cc — see attention_case.h.
#include "bench/attention_case.h"

#include <algorithm>

#include "bench/moe_case.h"
#include "ops/attention/ring_attention_targets.h"

namespace mk::bench {
namespace {

// Four query heads to a key head, as models have that are trained on long sequences.
constexpr int64_t kHeads = 32;
constexpr int64_t kGroup = 4;
constexpr int64_t kRows[] = {2048, 4096, 8192, 16384};  // of a rank

}  // namespace

std::vector<BenchCase> attention_cases(const WorldShape& world, const AttentionWish& wish) {
  std::vector<int64_t> seqs;
  for (const int64_t rows : kRows) seqs.push_back(rows * world.size());
  if (wish.seq) seqs = {*wish.seq};
  std::vector<AttentionMask> masks = {{MaskKind::kFull}, {MaskKind::kCausal}};
  if (wish.mask) masks = {*wish.mask};
  const int64_t heads = wish.heads.value_or(kHeads);
  const int64_t kv_heads = wish.kv_heads.value_or(heads % kGroup == 0 ? heads / kGroup : heads);
  std::vector<BenchCase> cases;
  for (const int64_t seq : seqs) {
    for (const AttentionMask& mask : masks) {
      const bool is_causal = mask.kind == MaskKind::kCausal;
      const SequenceOrder order = is_causal ? SequenceOrder::kZigzag : SequenceOrder::kContiguous;
      cases.push_back({.op = OpKind::kRingAttention,
                       .world = world,
                       .m = seq / world.size(),
                       .n = seq,
                       .k = kAttentionDim,
                       .dtype = DType::kBf16,
                       .attention = {heads, kv_heads, mask, wish.order.value_or(order)}});
    }
  }
  return cases;
}

attention::Problem attention_problem(const BenchCase& c) {
  return {c.world,
          {.batch = 1,
           .rows = c.m,
           .heads = c.attention.heads,
           .kv_heads = c.attention.kv_heads,
           .dim = c.k,
           .dtype = c.dtype},
          c.attention.mask,
          c.attention.order};
}

tools::AttentionSize attention_size(const BenchCase& c) {
  return {.seq = c.n,
          .heads = c.attention.heads,
          .kv_heads = c.attention.kv_heads,
          .dim = c.k,
          .scale = tools::scale_or_default({}, c.k),
          .mask = c.attention.mask};
}

// Bytes depend on neither roles nor tiles.
Traffic attention_traffic_of(const BenchCase& c) {
  const attention::Problem problem = attention_problem(c);
  const Seats seats(132);
  const auto layout = attention::make_layout(problem, attention::cut_on(DeviceKind::kCuda, problem, seats),
                                             attention::choose_roles(problem, {}, seats));
  Traffic busiest;
  for (int rank = 0; rank < c.world.size(); ++rank) {
    const auto nvlink = static_cast<int64_t>(attention::nvlink_bytes(layout, rank));
    const auto network = static_cast<int64_t>(attention::network_bytes(layout, rank));
    busiest.nvlink_bytes = std::max(busiest.nvlink_bytes, nvlink);
    busiest.network_bytes = std::max(busiest.network_bytes, network);
  }
  return busiest;
}

Traffic traffic_of(const BenchCase& c) {
  if (c.op == OpKind::kRingAttention) return attention_traffic_of(c);
  return is_moe(c.op) ? moe_traffic_of(c) : gemm_traffic_of(c);
}

}  // namespace mk::bench
