// SPDX-License-Identifier: MIT
// tools/attention_run.cc — see attention_run.h.
#include "attention_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "base/math.h"
#include "launches.h"
#include "runtime/world_state.h"
#include "usage.h"

namespace mk::tools {
namespace {

int64_t parts_of(SequenceOrder order, int ranks) { return order == SequenceOrder::kZigzag ? 2 * ranks : ranks; }

// Pairs of a query and a key that it sees, of one sequence and head.
double pairs_seen(const AttentionMask& mask, int64_t length) {
  const auto seq = static_cast<double>(length);
  if (mask.kind == MaskKind::kFull) return seq * seq;
  const auto most = static_cast<double>(std::min(length, mask.window.value_or(length)));
  return most * (most + 1) / 2 + (seq - most) * most;
}
double pairs_seen(const AttentionSize& size) {
  if (size.cu_seqlens.empty()) return pairs_seen(size.mask, size.seq);
  double pairs = 0;
  for (size_t i = 1; i < size.cu_seqlens.size(); ++i) {
    pairs += pairs_seen(size.mask, size.cu_seqlens[i] - size.cu_seqlens[i - 1]);
  }
  return pairs;
}

// So many sequences in `seq` positions.  About half of them are short: shorter than a world is large, often.
std::vector<int32_t> drawn_lengths(int64_t sequences, int64_t seq, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<int64_t> begins = {0};
  while (static_cast<int64_t>(begins.size()) < sequences) {
    const auto at = static_cast<int64_t>(random() % static_cast<uint64_t>(seq));
    begins.insert(at);
    const auto near = at + 1 + static_cast<int64_t>(random() % 5);
    if (near < seq && static_cast<int64_t>(begins.size()) < sequences) begins.insert(near);
  }
  begins.insert(seq);
  std::vector<int32_t> lengths;
  for (auto begin = begins.begin(), end = std::next(begin); end != begins.end(); begin = end++) {
    lengths.push_back(static_cast<int32_t>(*end - *begin));
  }
  return lengths;
}

// Of --packed; the batch is then how many there are.
std::vector<int32_t> ends_of_packed(const RunRequest& request, int64_t seq) {
  constexpr int64_t kSequences = 8;
  std::vector<int32_t> lengths = *request.packed;
  if (lengths.empty()) {
    const int64_t sequences = request.batch.value_or(std::min(kSequences, seq));
    check_usage(sequences >= 1 && sequences <= seq, "--batch is {}; it must be 1 to --seq, {}: each has a position",
                sequences, seq);
    check_usage(seq < (int64_t{1} << 31), "--seq is {}; of packed sequences it must be below 2^31", seq);
    lengths = drawn_lengths(sequences, seq, request.seed);
  }
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  check_usage(sum == seq, "--packed has {} positions; --seq is {}", sum, seq);
  std::vector<int32_t> ends = {0};
  for (const int32_t length : lengths) ends.push_back(ends.back() + length);
  return ends;
}

// Of all ranks together.
int64_t seq_of(const RunRequest& request, const AttentionDefaults& defaults, int64_t parts) {
  if (request.seq) return *request.seq;
  if (!request.packed || request.packed->empty()) return round_up(defaults.seq, parts);
  return std::accumulate(request.packed->begin(), request.packed->end(), int64_t{0});
}

// Products of rows with rows: q·k and p·v forwards; q·k, dout·v and the sums of dq, dk and dv backwards.
double products_of(Direction direction) { return direction == Direction::kForward ? 2 : 5; }

void check_sizes(const RunRequest& request, const AttentionFields& fields, int ranks) {
  constexpr int64_t kMostRows = int64_t{1} << 30;  // of a rank
  const int64_t parts = parts_of(fields.layout, ranks);
  const bool is_allowed = fields.seq >= 1 && fields.seq % parts == 0 && fields.seq / ranks < kMostRows;
  const char* const which = parts == ranks ? "the number of ranks" : "twice the number of ranks";
  check_usage(is_allowed, "--seq is {}; it must be a multiple of {}, {}, and below 2^30 for each rank", fields.seq,
              parts, which);
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
                   .seq = seq_of(request, defaults, parts_of(request.layout, world.size())),
                   .heads = heads,
                   .kv_heads = request.kv_heads.value_or(divides ? defaults.kv_heads : heads),
                   .mask = request.mask,
                   .layout = request.layout,
                   .scale = request.scale.value_or(0),
                   .sink = request.sink};
  AttentionFields& fields = *row.attention;
  if (!request.scale && row.k >= 1) fields.scale = scale_or_default({}, row.k);
  check_sizes(request, fields, world.size());
  if (request.packed) {
    fields.batch = 1;
    fields.cu_seqlens = ends_of_packed(request, fields.seq);
  }
  check_same_flags(row, request.split, world);
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
  return {fields.batch, fields.seq, fields.heads, fields.kv_heads, row.k, fields.scale, fields.mask, fields.cu_seqlens};
}

RingAttentionShape attention_shape_of(const Row& row, const World& world) {
  const AttentionFields& fields = *row.attention;
  return {fields.batch, fields.seq / world.size(), fields.heads, fields.kv_heads, row.k, row.dtype};
}

RingAttentionOptions attention_options_of(const Row& row, const Split& split) {
  const AttentionFields& fields = *row.attention;
  return {fields.mask, fields.layout, fields.scale, split, fields.cu_seqlens};
}

attention::Problem attention_problem_of(const Row& row, const World& world) {
  const AttentionFields& fields = *row.attention;
  return {world.state().shape(), attention_shape_of(row, world), fields.mask, fields.layout, fields.scale,
          fields.cu_seqlens};
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

HeldPacking::HeldPacking(runtime::Device& device, const std::vector<int32_t>& cu_seqlens)
    : memory_(device, cu_seqlens.size() * sizeof(int32_t), runtime::Buffer::Kind::kShared),
      sequences_(std::max(0, static_cast<int>(cu_seqlens.size()) - 1)) {
  std::ranges::copy(cu_seqlens, memory_.as<int32_t>());
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
