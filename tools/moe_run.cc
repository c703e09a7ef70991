// SPDX-License-Identifier: MIT
// tools/moe_run.cc — see moe_run.h.
#include "moe_run.h"

#include <stdexcept>

#include "launches.h"
#include "runtime/world_state.h"
#include "usage.h"

namespace mk::tools {

Row start_moe_row(const char* op, World& world, const RunRequest& request) {
  Row row = start_row(op, world, request);
  const MoeDefaults& defaults = moe_defaults_of(world.device());
  const int experts = request.experts.value_or(defaults.local_experts * world.size());
  row.moe = {.tokens = request.tokens.value_or(defaults.tokens),
             .experts = experts,
             .topk = request.topk.value_or(std::min(defaults.topk, experts)),
             .routing = request.routing,
             .direction = request.direction,
             .clamp = request.clamp,
             .max_rows = request.max_rows};
  row.k = request.hidden.value_or(defaults.hidden);
  row.n = request.inter.value_or(defaults.inter);
  check_same_flags(row, request.split, world);
  check_usage(row.moe->tokens >= 0, "--tokens is {}; it must be at least 0", row.moe->tokens);
  return row;
}

MoePairs pairs_of(const Row& row, const World& world, int launch) {
  return {world.state().shape(), *row.moe, row.seed, launch, world.device()};
}

uint64_t token_bytes(const Row& row) { return static_cast<uint64_t>(row.k) * size_of(row.dtype); }

int64_t plan_rows(Row& row, const World& world) {
  int64_t most = 1;
  int64_t rows = 0;
  int64_t crossing = 0;
  int64_t dropped = 0;
  for (int launch = 0; launch < row.launches; ++launch) {
    const MoePairs pairs = pairs_of(row, world, launch);
    for (int rank = 0; rank < world.size(); ++rank) {
      most = std::max(most, pairs.rows_on(rank));
      rows += pairs.rows_on(rank);
      crossing += pairs.traffic(rank, token_bytes(row)).crossing_tokens;
      for (const int32_t of_slot : pairs.dropped(rank)) dropped += of_slot;
    }
  }
  const int64_t shares = int64_t{row.launches} * world.size();
  row.m = rows / shares;
  row.moe->crossing_tokens = static_cast<double>(crossing) / static_cast<double>(shares);
  row.moe->dropped_pairs = static_cast<double>(dropped) / static_cast<double>(shares);
  return most;
}

ToldDrops::ToldDrops(runtime::Device& device, const MoePairs& pairs, int rank, const Row& row) {
  if (!row.moe->max_rows) return;
  constexpr int32_t kUntold = -7777;
  routed_ = uploaded(device, std::vector<int32_t>(pairs.ids(rank).size(), kUntold));
  dropped_ = uploaded(device, std::vector<int32_t>(row.moe->topk, kUntold));
}

int64_t ToldDrops::count_wrong(runtime::Device& device, const MoePairs& pairs, int rank) const {
  if (!routed_) return 0;
  const std::vector<int64_t>& ids = pairs.ids(rank);
  const auto count_different = [&](const runtime::Buffer& buffer, const std::vector<int32_t>& right) {
    std::vector<int32_t> seen(right.size());
    if (!seen.empty()) device.download(seen.data(), buffer.as(), seen.size() * sizeof(int32_t));
    int64_t wrong = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) wrong += seen[i] != right[i];
    return wrong;
  };
  return count_different(*routed_, {ids.begin(), ids.end()}) + count_different(*dropped_, pairs.dropped(rank));
}

Matrix with_rows(runtime::Device& device, DType dtype, int64_t rows, int64_t cols) {
  Matrix matrix(device, dtype, std::max<int64_t>(rows, 1), cols);
  matrix.view.rows = rows;
  return matrix;
}

MoeIds::Type ids_in(int launch) { return launch % 2 == 0 ? MoeIds::Type::kInt64 : MoeIds::Type::kInt32; }

runtime::Buffer uploaded_ids(runtime::Device& device, const std::vector<int64_t>& ids, MoeIds::Type type) {
  if (type == MoeIds::Type::kInt64) return uploaded(device, ids);
  return uploaded(device, std::vector<int32_t>(ids.begin(), ids.end()));
}

void check_traffic(const Row& row, const World& world, const runtime::Plan& plan,
                   const std::function<MoeTraffic(const MoePairs&, int rank)>& traffic) {
  std::vector<MoeTraffic> all(world.num_ranks());
  for (int launch = 0; launch < row.launches; ++launch) {
    const MoePairs pairs = pairs_of(row, world, launch);
    for_each_rank_here(world, [&](int rank) {
      const MoeTraffic own = traffic(pairs, rank);
      all[rank - world.first_rank()].nvlink_bytes += own.nvlink_bytes;
      all[rank - world.first_rank()].network_bytes += own.network_bytes;
    });
  }
  for_each_rank_here(world, [&](int rank) {
    const MoeTraffic& own = all[rank - world.first_rank()];
    const uint64_t nvlink = plan.nvlink_bytes(rank);
    const uint64_t network = world.network_stats(rank).bytes;
    if (nvlink == own.nvlink_bytes && network == own.network_bytes) return;
    throw std::runtime_error(
        fmt::format("rank {} moved {} bytes over NVLink and {} over the network; its routing asks for {} and {}", rank,
                    nvlink, network, own.nvlink_bytes, own.network_bytes));
  });
}

}  // namespace mk::tools
