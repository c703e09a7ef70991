// SPDX-License-Identifier: MIT
// tools/attention_run.cc — see attention_run.h.
#include "attention_run.h"

#include <fmt/format.h>

#include <stdexcept>

#include "base/math.h"
#include "launches.h"
#include "runtime/world_state.h"
#include "usage.h"

namespace mk::tools {
namespace {

int64_t parts_of(SequenceOrder order, int ranks) { return order == SequenceOrder::kZigzag ? 2 * ranks : ranks; }

// Pairs of a query and a key that it sees, of one sequence and head.
double pairs_seen(const AttentionSize& size) {
  const auto seq = static_cast<double>(size.seq);
  if (size.mask.kind == MaskKind::kFull) return seq * seq;
  const auto most = static_cast<double>(size.most_seen());
  return most * (most + 1) / 2 + (seq - most) * most;
}

// Products of rows with rows: q·k and p·v forwards; q·k, dout·v and the sums of dq, dk and dv backwards.
double products_of(Direction direction) { return direction == Direction::kForward ? 2 : 5; }

void check_sizes(const RunRequest& request, const AttentionFields& fields, int ranks) {
  constexpr int64_t kMostRows = int64_t{1} << 30;  // of a rank
  const int64_t parts = parts_of(fields.layout, ranks);
  check_usage(fields.seq >= 1 && fields.seq % parts == 0 &&
                      fields.seq /
                          ranks<kMostRows, "--seq is {}; it must be a multiple of {}, {}, and below 2^30 for each rank",
                                fields.seq, parts, parts>
                              ranks
                  ? "twice the number of ranks"
                  : "the number of ranks");
  check_usage(!request.scale || (fields.scale >= kLeastScale && fields.scale <= kMostScale),
              "--scale is {}; it must be {} to {}, so that results can be checked", fields.scale, kLeastScale,
              kMostScale);
}

}  // namespace

Row start_attention_row(World& world, const RunRequest& request) {
  Row row = start_row("ring_attention", world, request);
  const AttentionDefaults& defaults = attention_defaults_of(world.device());
  const int64_t heads = request.heads.value_or(defaults.heads);
  const bool divides = heads % defaults.kv_heads == 0;
  row.k = request.head_dim.value_or(defaults.head_dim);
  row.attention = {.direction = request.direction,
                   .batch = request.batch.value_or(1),
                   .seq = request.seq.value_or(round_up(defaults.seq, parts_of(request.layout, world.size()))),
                   .heads = heads,
                   .kv_heads = request.kv_heads.value_or(divides ? defaults.kv_heads : heads),
                   .mask = request.mask,
                   .layout = request.layout,
                   .scale = request.scale.value_or(0),
                   .sink = request.sink};
  AttentionFields& fields = *row.attention;
  if (!request.scale && row.k >= 1) fields.scale = scale_or_default({}, row.k);
  check_same_flags(row, request.split, world);
  check_sizes(request, fields, world.size());
  row.n = fields.seq;
  return row;
}

void set_amounts(Row& row, const World& world) {
  const AttentionSize size = attention_size_of(row);
  row.m = size.batch * size.heads * (size.seq / world.size());
  const double flops_of_pair = 2 * products_of(row.attention->direction) * static_cast<double>(size.dim);
  row.attention->flops = flops_of_pair * static_cast<double>(size.batch * size.heads) * pairs_seen(size) / world.size();
}

AttentionSize attention_size_of(const Row& row) {
  const AttentionFields& fields = *row.attention;
  return {fields.batch, fields.seq, fields.heads, fields.kv_heads, row.k, fields.scale, fields.mask};
}

RingAttentionShape attention_shape_of(const Row& row, const World& world) {
  const AttentionFields& fields = *row.attention;
  return {fields.batch, fields.seq / world.size(), fields.heads, fields.kv_heads, row.k, row.dtype};
}

RingAttentionOptions attention_options_of(const Row& row, const Split& split) {
  return {row.attention->mask, row.attention->layout, row.attention->scale, split};
}

attention::Problem attention_problem_of(const Row& row, const World& world) {
  const AttentionFields& fields = *row.attention;
  return {world.state().shape(), attention_shape_of(row, world), fields.mask, fields.layout, fields.scale};
}

Shard shard_of(const Row& row, const World& world, int rank) {
  return {row.attention->layout, world.size(), rank, row.attention->seq / world.size()};
}

Heads::Heads(runtime::Device& device, const RingAttentionShape& shape, int64_t heads, int64_t behind)
    : matrix(device, shape.dtype, shape.batch * shape.rows + behind, heads * shape.dim),
      view{matrix.view.data, shape.dtype, shape.batch, shape.rows, heads, shape.dim} {}

double Heads::bytes(const RingAttentionShape& shape, int64_t heads, int64_t behind) {
  return allocated_bytes(static_cast<double>(shape.batch * shape.rows + behind), static_cast<double>(heads * shape.dim),
                         shape.dtype);
}

void check_traffic(const Row& row, const World& world, const runtime::Plan& plan,
                   const std::function<AttentionTraffic(int rank)>& asked) {
  const auto launches = static_cast<uint64_t>(row.launches);
  for_each_rank_here(world, [&](int rank) {
    const uint64_t nvlink = plan.nvlink_bytes(rank);
    const uint64_t network = world.network_stats(rank).bytes;
    const AttentionTraffic one = asked(rank);
    if (nvlink == launches * one.nvlink && network == launches * one.network) return;
    throw std::runtime_error(
        fmt::format("rank {} moved {} bytes over NVLink and {} over the network; its mask asks for {} and {}", rank,
                    nvlink, network, launches * one.nvlink, launches * one.network));
  });
}

}  // namespace mk::tools
