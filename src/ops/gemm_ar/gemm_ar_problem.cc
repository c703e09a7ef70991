// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_problem.cc — see gemm_ar_problem.h.
#include "ops/gemm_ar/gemm_ar_problem.h"

#include <algorithm>

#include "base/check.h"

namespace mk::gemm_ar_op {

bool chooses_one_shot(const Problem& problem) {
  const bool is_low = problem.m <= kMostOneShotRows || problem.m % problem.world.size() != 0;
  return is_low && problem.n >= 1 && problem.m <= kMostOneShotBytes / size_of(problem.dtype) / problem.n;
}

AllReducePath path_for(const Problem& problem, AllReducePath asked) {
  if (asked != AllReducePath::kAuto) return asked;
  return chooses_one_shot(problem) ? AllReducePath::kOneShot : AllReducePath::kTwoShot;
}

void check_problem(const Problem& problem, AllReducePath path, DeviceKind device) {
  check_arg(path == AllReducePath::kOneShot || path == AllReducePath::kTwoShot, "path is {}; there is no such path",
            static_cast<int>(path));
  dense::check_sizes(problem, device);
  if (path == AllReducePath::kTwoShot) {
    check_arg(problem.m % problem.world.size() == 0, "m is {}; in two shots it must be a multiple of the world size {}",
              problem.m, problem.world.size());
    return;
  }
  constexpr int64_t kMostElements = int64_t{1} << 56;
  check_arg(problem.m * problem.n <= kMostElements / problem.world.size(),
            "m and n are {} and {}; in one shot every rank holds {} such results, which is too much", problem.m,
            problem.n, problem.world.size());
}

RoleCounts choose_roles(const Problem& problem, AllReducePath path, const Split& asked, const Places& places) {
  const bool has_others = problem.world.size() > 1;
  const bool gathers = has_others && path == AllReducePath::kTwoShot;
  if (!dense::is_open(asked)) {
    const char* name = path == AllReducePath::kTwoShot ? "gemm_ar in two shots" : "gemm_ar in one shot";
    return dense::checked_split(name, problem.world, asked, {.intra = gathers, .reduce = has_others}, places);
  }
  dense::RankWork work = gemm_rs_op::work_of(problem);
  if (gathers) {  // its shard goes out once more, and all others' are read and written
    const double shard = static_cast<double>(problem.m) / problem.world.size() * static_cast<double>(problem.n) *
                         static_cast<double>(size_of(problem.dtype));
    work.nvlink_bytes *= 2;
    work.network_bytes *= 2;
    work.moved_bytes += shard * (2 * problem.world.size() - 1);
    // Where the links take twice as long, compute does not miss a few places (docs/performance.md).
    const dense::RankTime time = dense::time_of(places, work);
    if (2 * time.compute <= time.links) work.spare += 2;
  }
  const int most = gemm_rs_op::most_reducers(places, problem.m, problem.n);
  const int share = gathers ? gemm_rs_op::share_of(problem, 2, work, places, most)
                            : std::min(most, dense::fair_share(places, 1, work));
  RoleCounts roles;
  roles.reduce = has_others ? share : 0;
  roles.intra = gathers ? share : 0;
  return dense::filled_up(problem.world, roles, places);
}

TwoShotLayout make_two_shot(const Problem& problem, const TileShape& tile, const RoleCounts& roles) {
  return {gemm_rs_op::make_layout(problem, tile, roles)};
}

OneShotLayout make_one_shot(const Problem& problem, const TileShape& tile, const RoleCounts& roles) {
  OneShotLayout layout;
  layout.world = problem.world;
  layout.whole = dense::make_image(problem.m, problem.n, size_of(problem.dtype), tile.m, tile.n, tile.band);
  layout.k = problem.k;
  layout.band = tile.band;
  layout.roles = roles;
  dense::check_num_tiles(problem, layout.num_tiles());
  return layout;
}

std::vector<uint64_t> window_bytes(const TwoShotLayout& layout) {
  std::vector<uint64_t> bytes = gemm_rs_op::window_bytes(layout);
  bytes.push_back(layout.world.size() > 1 ? layout.world.nodes * layout.shard.bytes() : 0);
  return bytes;
}

std::vector<uint64_t> window_bytes(const OneShotLayout& layout) {
  const WorldShape& world = layout.world;
  if (world.size() == 1) return {0, 0, 0};
  const uint64_t whole = layout.whole.bytes();
  return {world.ranks * whole, world.nodes > 1 ? whole : 0, (world.nodes - 1) * whole};
}

std::string signal_name(const TwoShotLayout& layout, uint32_t signal) {
  const uint32_t first = layout.gemm_rs_op::Layout::num_signals();
  if (signal < first) return gemm_rs_op::signal_name(layout, signal);
  const int64_t tiles = layout.shard.tiles();
  return fmt::format("finished[rank {}, tile {}]", (signal - first) / tiles, (signal - first) % tiles);
}

std::string signal_name(const OneShotLayout& layout, uint32_t signal) {
  const int64_t size = layout.world.size();
  if (signal < size) return fmt::format("ready[rank {}]", signal);
  const int64_t group = (signal - size) / layout.whole.tiles();
  const int64_t tile = (signal - size) % layout.whole.tiles();
  if (group == 0) return fmt::format("partial[tile {}]", tile);
  return fmt::format("arrived[node {}, tile {}]", group - 1, tile);
}

}  // namespace mk::gemm_ar_op
