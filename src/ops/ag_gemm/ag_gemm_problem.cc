// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_problem.cc — checks of the caller's arguments, the choice of roles, the layout.
#include "ops/ag_gemm/ag_gemm_problem.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"
#include "ops/ag_gemm/ag_gemm_configs.h"
#include "ops/cost_model.h"
#include "ops/split.h"
#include "target/h200.h"
#include "target/sm90/communication_block.h"
#include "target/sm90/gemm_config.h"

namespace mk::ag_gemm_op {
namespace {

constexpr int64_t kMostParts = 16;

// Rows of other nodes come until the end, and a band is begun when its last rows are there: one that a wave computes
// leaves least to do after that.  But lower than half of what shares operands well is too low.
int far_band(const Layout& layout) {
  const int in_a_wave = layout.roles.num_compute() / layout.cluster / layout.col_blocks;
  return 2 * in_a_wave >= layout.band ? std::min(layout.band, in_a_wave) : layout.band;
}

}  // namespace

void check_problem(const Problem& problem, DeviceKind device) {
  gemm::check_world_divides_m(problem);
  gemm::check_sizes(problem, device);
}

Problem problem_of(const WorldShape& world, const runtime::Members& members, std::span<const AgGemmArgs> args) {
  check_arg(args.size() == static_cast<size_t>(members.count), "args has {} entries; {} ranks of the world are here",
            args.size(), members.count);
  const AgGemmArgs& first = args[0];
  return {world, first.c.rows, gemm::cols_of(first.b, first.b_order), first.a.cols, first.a.dtype, first.b_order};
}

void check_args(const Problem& problem, const runtime::Members& members, std::span<const AgGemmArgs> args,
                DeviceKind device) {
  const Activation f = args[0].activation;
  check_arg(f == Activation::kNone || f == Activation::kGelu || f == Activation::kSilu,
            "activation is {}; it must be kNone, kGelu or kSilu", static_cast<int>(f));
  for (size_t i = 0; i < args.size(); ++i) {
    const int rank = members.first + static_cast<int>(i);
    const AgGemmArgs& own = args[i];
    gemm::check_rank(problem, rank, {own.a, own.b, own.c, own.b_order, own.stream}, problem.m / problem.world.size(),
                     problem.m, device);
    check_arg(own.activation == f, "activation of rank {} is {}; rank 0 has {} and all must agree", rank,
              name_of(own.activation), name_of(f));
    if (own.bias.data != nullptr) gemm::check_tensor(own.bias, "bias", rank, 1, problem.n, problem.dtype, device);
  }
}

TileShape choose_tile(const Problem& problem, const TileSize& asked, DeviceKind device, const Roster& roles) {
  if (device != DeviceKind::kCuda) {
    check_arg(asked.m == 0 && asked.n == 0 && asked.cluster == 0, "tile is {}x{}x{}; on a cpu it cannot be chosen",
              asked.m, asked.n, asked.cluster);
    return kCpuTile;
  }
  const int64_t shards = problem.world.size();
  const sm90::GemmBlocks blocks{roles.num_compute(), sm90::communication_blocks(roles), roles.has_inside()};
  sm90::GemmTile tile{asked.m, asked.n, asked.cluster};
  if (tile == sm90::GemmTile{0, 0, 0}) {
    tile = sm90::choose_tile(sm90::kGemmTiles, {problem.m / shards, shards, problem.n, problem.k}, blocks);
  }
  check_arg(sm90::has_tile(sm90::kGemmTiles, tile), "tile is {}x{}x{}; it must be one of {}", tile.m, tile.n,
            tile.cluster, sm90::names_of(sm90::kGemmTiles));
  check_arg(sm90::fits(tile, blocks),
            "tile.cluster is {}; with {} blocks that compute{} and {} that do not it must be 1", tile.cluster,
            blocks.compute, blocks.have_workers ? " and copy" : "", blocks.others);
  const int rows = tile.m * tile.cluster;
  return {.m = rows,
          .n = tile.n,
          .band = gemm::band_of(rows, tile.n, roles.num_compute() / tile.cluster),
          .cluster = tile.cluster};
}

Roster choose_roles(const Problem& problem, const Split& asked, const Seats& seats) {
  const bool has_peers = problem.world.ranks > 1;
  const bool has_nodes = problem.world.nodes > 1;
  if (!asked.empty()) {
    const RoleNeed needs[] = {{has_peers, RoleNeed::Inside::kMaybe}, {has_nodes}, {}};
    return checked_split("ag_gemm", problem.world, asked, Layout::kRoles, needs, seats);
  }
  // Inside a node copies cost no SM (docs/performance.md).  Between nodes they have to keep up with the network.
  if (has_peers && !has_nodes && seats.sharing > 1) return roster_with_intra_inside(0, seats.count);
  // A rank gives its shard to its peers, stages it for the network, which takes it to every other node, and passes on
  // what it gets from there.
  const WorldShape& world = problem.world;
  const double rows = static_cast<double>(problem.m) / world.size();
  const double shard = rows * static_cast<double>(problem.k) * static_cast<double>(size_of(problem.dtype));
  const double copies = world.nodes * (world.ranks - 1) + (has_nodes ? 1 : 0);
  cost::RankWork work{
      .flops = 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k),
      .nvlink_bytes = shard * world.nodes * (world.ranks - 1),
      .network_bytes = shard * (world.nodes - 1),
      .moved_bytes = 2 * shard * copies,
      .spare = cost::kSpareForCopies};
  int send = 0;
  int intra = 0;
  if (world.size() > 1) {
    const cost::RankTime time = cost::time_of(seats, work);
    if (time.compute < time.links) work.spare = cost::kSpareOfLinks;
    const int all = cost::fair_share(seats, 1, work);
    const double staged_per_second = 2 * shard / time.slowest();
    const double paced = std::round(cost::kSendPace * staged_per_second / h200::kMovedPerWorkerSecond);
    const int senders = static_cast<int>(seats.sharing == 1 ? all / copies : paced);
    if (has_nodes) send = has_peers ? std::clamp(senders, 1, std::max(1, all - 1)) : all;
    intra = has_peers ? std::max(1, all - send) : 0;
  }
  return filled_up(problem.world, roster(intra, send, 0), seats);
}

Layout make_layout(const Problem& problem, const TileShape& tile, const Roster& roles) {
  Layout layout;
  layout.world = problem.world;
  layout.shard_rows = problem.m / problem.world.size();
  layout.n = problem.n;
  layout.k = problem.k;
  layout.element_bytes = size_of(problem.dtype);
  layout.tile_m = tile.m;
  layout.tile_n = tile.n;
  layout.row_blocks = static_cast<int>(ceil_div<int64_t>(layout.shard_rows, tile.m));
  layout.col_blocks = static_cast<int>(ceil_div<int64_t>(problem.n, tile.n));
  layout.band = tile.band;
  layout.cluster = tile.cluster;
  layout.roles = roles;
  const int64_t chunk = std::min<int64_t>(tile.m, layout.shard_rows) * problem.k * layout.element_bytes;
  const int64_t parts = std::clamp<int64_t>(ceil_div(chunk, tile.part_bytes), 1, kMostParts);
  layout.part_size = round_up<int64_t>(ceil_div(chunk, parts), 16);  // what a GPU copies at once
  layout.parts = static_cast<int>(ceil_div(chunk, layout.part_size));
  gemm::check_num_tiles(problem, layout.num_tiles());
  layout.shard_order = Bands(layout.row_blocks, layout.col_blocks, tile.band);
  layout.node_order = Bands(problem.world.ranks * layout.row_blocks, layout.col_blocks, far_band(layout));
  layout.per_shard = Divider(layout.row_blocks * layout.col_blocks);
  return layout;
}

Layout layout_for(const Problem& problem, const AgGemmOptions& options, const Seats& seats, DeviceKind device) {
  const Roster roles = choose_roles(problem, options.split, seats);
  return make_layout(problem, choose_tile(problem, options.tile, device, roles), roles);
}

std::vector<uint64_t> window_bytes(const Layout& layout) {
  return {static_cast<uint64_t>(layout.world.size() > 1 ? layout.gathered_bytes() : 0)};
}

std::string signal_name(const Layout& layout, uint32_t signal) {
  const uint32_t size = static_cast<uint32_t>(layout.world.size());
  if (signal < size) return fmt::format("ready[rank {}]", signal);
  const uint32_t landed = layout.landed(0, {});
  if (signal < landed) {
    return fmt::format("arrived[rank {}, chunk {}]", (signal - size) / layout.row_blocks,
                       (signal - size) % layout.row_blocks);
  }
  const int64_t number = signal - landed;
  const Part part = layout.part_at(number % layout.num_parts());
  return fmt::format("landed[node {}, chunk {}, part {}]", number / layout.num_parts(), part.chunk, part.index);
}

}  // namespace mk::ag_gemm_op
