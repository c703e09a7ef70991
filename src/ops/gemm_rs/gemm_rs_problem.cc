// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_problem.cc — see gemm_rs_problem.h.
#include "ops/gemm_rs/gemm_rs_problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"

namespace mk::gemm_rs_op {

void check_problem(const Problem& problem, DeviceKind device) {
  dense::check_sizes(problem, device);
  dense::check_world_divides_m(problem);
}

// A rank reads its node's partial results of its rail's rows, writes its node's sums, which cross to every other node,
// and makes its shard of its own and theirs.
dense::RankWork work_of(const Problem& problem) {
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

int most_reducers(const Places& places, int64_t rows, int64_t cols) {
  if (places.sharing == 1) return places.count;
  return static_cast<int>(std::clamp<int64_t>(large_tiles(rows, cols), 1, int64_t{places.count} * places.sharing));
}

int share_of(const Problem& problem, int roles, const dense::RankWork& work, const Places& places, int most) {
  const int64_t own_tiles = large_tiles(problem.m / problem.world.size(), problem.n);
  const int share = problem.world.nodes == 1 ? dense::share_for_sums(places, roles, work, own_tiles)
                                             : dense::fair_share(places, roles, work);
  return std::min(most, share);
}

RoleCounts choose_roles(const Problem& problem, const Split& asked, const Places& places) {
  const bool has_others = problem.world.size() > 1;
  if (!dense::is_open(asked)) {
    return dense::checked_split("gemm_rs", problem.world, asked, {.reduce = has_others}, places);
  }
  RoleCounts roles;
  const int most = most_reducers(places, problem.m / problem.world.ranks, problem.n);
  roles.reduce = has_others ? share_of(problem, 1, work_of(problem), places, most) : 0;
  return dense::filled_up(problem.world, roles, places);
}

Layout make_layout(const Problem& problem, const TileShape& tile, const RoleCounts& roles) {
  Layout layout;
  layout.world = problem.world;
  layout.shard =
      dense::make_image(problem.m / problem.world.size(), problem.n, size_of(problem.dtype), tile.m, tile.n, tile.band);
  layout.k = problem.k;
  layout.band = tile.band;
  layout.roles = roles;
  dense::check_num_tiles(problem, layout.num_tiles());
  return layout;
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
