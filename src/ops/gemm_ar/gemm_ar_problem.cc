// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_problem.cc — see gemm_ar_problem.h.
#include "ops/gemm_ar/gemm_ar_problem.h"

#include <algorithm>

#include "base/check.h"
#include "ops/gemm_ar/gemm_ar_configs.h"
#include "ops/split.h"

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
  gemm::check_sizes(problem, device);
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

Roster choose_roles(const Problem& problem, AllReducePath path, const Split& asked, const Seats& seats) {
  const bool has_others = problem.world.size() > 1;
  const bool gathers = has_others && path == AllReducePath::kTwoShot;
  if (!asked.empty()) {
    const RoleNeed two_shot[] = {{gathers}, {has_others}, {}};
    const RoleNeed one_shot[] = {{has_others}, {}};
    return path == AllReducePath::kTwoShot
               ? checked_split("gemm_ar in two shots", problem.world, asked, TwoShotLayout::kRoles, two_shot, seats)
               : checked_split("gemm_ar in one shot", problem.world, asked, OneShotLayout::kRoles, one_shot, seats);
  }
  cost::RankWork work = gemm_rs_op::work_of(problem);
  if (gathers) {  // its shard goes out once more, and all others' are read and written
    const double shard = static_cast<double>(problem.m) / problem.world.size() * static_cast<double>(problem.n) *
                         static_cast<double>(size_of(problem.dtype));
    work.nvlink_bytes *= 2;
    work.network_bytes *= 2;
    work.moved_bytes += shard * (2 * problem.world.size() - 1);
    // Where the links take twice as long, compute does not miss a few seats (docs/performance.md).
    const cost::RankTime time = cost::time_of(seats, work);
    if (2 * time.compute <= time.links) work.spare += cost::kMoreForSlowLinks;
  }
  const int most = gemm_rs_op::most_reducers(seats, problem.m, problem.n);
  const int share =
      gathers ? gemm_rs_op::share_of(problem, 2, work, seats, most) : std::min(most, cost::fair_share(seats, 1, work));
  return filled_up(problem.world, roster(path, gathers ? share : 0, has_others ? share : 0, 0), seats);
}

Roster roster(AllReducePath path, int intra, int reduce, int compute) {
  if (path == AllReducePath::kOneShot) return {{reduce}, {compute}};
  return {{intra}, {reduce}, {compute}};
}

std::span<const RoleName> roles_of(AllReducePath path) {
  if (path == AllReducePath::kOneShot) return OneShotLayout::kRoles;
  return TwoShotLayout::kRoles;
}

TwoShotLayout make_two_shot(const Problem& problem, const TileShape& tile, const Roster& roles) {
  return {gemm_rs_op::make_layout(problem, tile, roles)};
}

OneShotLayout make_one_shot(const Problem& problem, const TileShape& tile, const Roster& roles) {
  OneShotLayout layout;
  layout.world = problem.world;
  layout.whole = make_image(problem.m, problem.n, size_of(problem.dtype), tile.m, tile.n, tile.band);
  layout.k = problem.k;
  layout.band = tile.band;
  layout.roles = roles;
  gemm::check_num_tiles(problem, layout.num_tiles());
  return layout;
}

TwoShotLayout two_shot_for(const Problem& problem, const Split& split, const Seats& seats, DeviceKind device) {
  const Roster roles = choose_roles(problem, AllReducePath::kTwoShot, split, seats);
  const int64_t shards = problem.world.size();
  const bool on_gpu = device == DeviceKind::kCuda;
  return make_two_shot(problem, on_gpu ? gemm::gpu_tile(problem, shards, roles.num_compute()) : kCpuTile, roles);
}

OneShotLayout one_shot_for(const Problem& problem, const Split& split, const Seats& seats, DeviceKind device) {
  const Roster roles = choose_roles(problem, AllReducePath::kOneShot, split, seats);
  const bool on_gpu = device == DeviceKind::kCuda;
  return make_one_shot(problem, on_gpu ? gemm::gpu_tile(problem, 1, roles.num_compute()) : kCpuTile, roles);
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
