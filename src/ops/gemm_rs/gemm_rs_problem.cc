// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_problem.cc — see gemm_rs_problem.h.
#include "ops/gemm_rs/gemm_rs_problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "ops/gemm_rs/gemm_rs_configs.h"
#include "ops/split.h"

namespace mk::gemm_rs_op {

void check_problem(const Problem& problem, DeviceKind device) {
  gemm::check_sizes(problem, device);
  gemm::check_world_divides_m(problem);
}

// A rank reads its node's partial results of its rail's rows, writes its node's sums, which cross to every other node,
// and makes its shard of its own and theirs.
cost::RankWork work_of(const Problem& problem) {
  const WorldShape& world = problem.world;
  const double result = static_cast<double>(problem.m) * static_cast<double>(problem.n);
  const double shard = result / world.size() * static_cast<double>(size_of(problem.dtype));
  const double others = shard * (world.nodes - 1);
  return {.flops = 2 * result * static_cast<double>(problem.k),
          .nvlink_bytes = shard * (world.ranks - 1) * world.nodes,
          .network_bytes = others,
          .moved_bytes = shard * (world.size() + 1) + 2 * others};
}

namespace {

int64_t large_tiles(int64_t rows, int64_t cols) { return ceil_div<int64_t>(rows, 128) * ceil_div<int64_t>(cols, 256); }

}  // namespace

int most_reducers(const Seats& seats, int64_t rows, int64_t cols) {
  if (seats.sharing == 1) return seats.count;
  return static_cast<int>(std::clamp<int64_t>(large_tiles(rows, cols), 1, int64_t{seats.count} * seats.sharing));
}

int share_of(const Problem& problem, int roles, const cost::RankWork& work, const Seats& seats, int most) {
  const int64_t own_tiles = large_tiles(problem.m / problem.world.size(), problem.n);
  const int share = problem.world.nodes == 1 ? cost::share_for_sums(seats, roles, work, own_tiles)
                                             : cost::fair_share(seats, roles, work);
  return std::min(most, share);
}

Roster choose_roles(const Problem& problem, const Split& asked, const Seats& seats) {
  const bool has_others = problem.world.size() > 1;
  if (!asked.empty()) {
    const RoleNeed needs[] = {{has_others}, {}};
    return checked_split("gemm_rs", problem.world, asked, Layout::kRoles, needs, seats);
  }
  const int most = most_reducers(seats, problem.m / problem.world.ranks, problem.n);
  const int reduce = has_others ? share_of(problem, 1, work_of(problem), seats, most) : 0;
  return filled_up(problem.world, roster(reduce, 0), seats);
}

Layout make_layout(const Problem& problem, const TileShape& tile, const Roster& roles) {
  Layout layout;
  layout.world = problem.world;
  layout.shard =
      make_image(problem.m / problem.world.size(), problem.n, size_of(problem.dtype), tile.m, tile.n, tile.band);
  layout.k = problem.k;
  layout.band = tile.band;
  layout.roles = roles;
  gemm::check_num_tiles(problem, layout.num_tiles());
  return layout;
}

Layout layout_for(const Problem& problem, const Split& split, const Seats& seats, DeviceKind device) {
  const Roster roles = choose_roles(problem, split, seats);
  const bool on_gpu = device == DeviceKind::kCuda;
  const TileShape tile = on_gpu ? gemm::gpu_tile(problem, problem.world.size(), roles.num_compute()) : kCpuTile;
  return make_layout(problem, tile, roles);
}

std::vector<uint64_t> window_bytes(const Layout& layout) {
  if (layout.world.size() == 1) return {0, 0, 0};
  const uint64_t shard = layout.shard.bytes();
  const uint64_t between_nodes = (layout.world.nodes - 1) * shard;
  return {layout.world.size() * shard, between_nodes, between_nodes};
}

std::string signal_name(const Layout& layout, uint32_t signal) {
  const int64_t size = layout.world.size();
  if (signal < size) return fmt::format("ready[rank {}]", signal);
  const int64_t group = (signal - size) / layout.shard.tiles();
  const int64_t tile = (signal - size) % layout.shard.tiles();
  if (group < layout.world.nodes) return fmt::format("partial[node {}, tile {}]", group, tile);
  return fmt::format("arrived[node {}, tile {}]", group - layout.world.nodes, tile);
}

}  // namespace mk::gemm_rs_op
