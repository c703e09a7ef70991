// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_problem.h — what is to be computed, how it is cut, and what is refused.
//
// Layout is plain data and pure functions: protocol, kernels, ledger and tests all read it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/macros.h"
#include "core/roles.h"
#include "core/schedule.h"
#include "core/tile.h"
#include "core/window.h"
#include "core/world_shape.h"
#include "mkernel/ag_gemm.h"
#include "ops/gemm/gemm_problem.h"
#include "ops/tile_image.h"
#include "target/sm90/gemm_config.h"

namespace mk::ag_gemm_op {

using gemm::Problem;  // m: rows of all ranks together
using gemm::TileShape;

// The operator's window, after those that every plan has.
constexpr uint32_t kGatheredWindow =
    kFirstOperatorWindow;  // [M, K]: shard after shard, this rank's own one for the network

// Of a chunk, moved by one worker.
struct Part {
  int chunk = 0;
  int index = 0;
};

struct Layout {
  enum : int { kIntra, kSend, kCompute };
  static constexpr std::array<RoleName, 3> kRoles = {{{"intra", "chunk"}, {"send", "chunk"}, {"compute", "tile"}}};

  WorldShape world;
  int64_t shard_rows = 0;  // M / W
  int64_t n = 0;
  int64_t k = 0;
  int64_t element_bytes = 0;
  int tile_m = 0;
  int tile_n = 0;
  int row_blocks = 0;  // per shard; also chunks per shard
  int col_blocks = 0;
  int band = 1;       // row blocks that share columns in the order of visit
  Bands shard_order;  // of the tiles of a shard,
  Bands node_order;   // and of those of another node's shards, which are computed side by side
  Divider per_shard;  // tiles of a shard
  int cluster = 1;    // workers that compute a tile together
  int parts = 1;      // of a chunk
  int64_t part_size = 0;
  Roster roles;

  using Configs = sm90::GemmConfigs;
  static constexpr bool kSums = false;
  static constexpr bool kKeepsStep = false;
  static constexpr uint32_t kGatheredSlot = kGatheredWindow;
  static constexpr bool kGathers = true;  // a rank multiplies rows of others
  static constexpr Output kOutput = Output::kAll;
  // A shard of the result.
  MK_HD constexpr TileImage image() const {
    return {shard_rows, n, element_bytes, tile_m, tile_n, band, row_blocks, col_blocks};
  }
  MK_HD constexpr int64_t m() const { return world.size() * shard_rows; }
  MK_HD constexpr int64_t a_rows() const { return shard_rows; }         // of a rank
  MK_HD constexpr int num_own_tiles() const { return per_shard.by(); }  // of own rows
  MK_HD constexpr int64_t num_tiles() const { return static_cast<int64_t>(world.size()) * row_blocks * col_blocks; }
  MK_HD constexpr Range rows_of(int row_block) const { return block_range(shard_rows, tile_m, row_block); }
  MK_HD constexpr Range cols_of(int col_block) const { return block_range(n, tile_n, col_block); }

  // Bytes of a chunk inside its shard.
  MK_HD constexpr Range chunk_bytes(int chunk) const {
    const Range rows = rows_of(chunk);
    return {rows.first * k * element_bytes, rows.count * k * element_bytes};
  }
  // Bytes of a part inside its shard; of the last chunk the last ones may have none.
  MK_HD constexpr Range part_bytes(const Part& part) const {
    const Range all = chunk_bytes(part.chunk);
    const int64_t before = min_of(part.index * part_size, all.count);
    return {all.first + before, min_of(part_size, all.count - before)};
  }
  // A tile's rows of A: own ones are where the caller has them.
  MK_HD constexpr Place rows_place(int rank, const Tile& tile) const {
    const uint64_t at = static_cast<uint64_t>(chunk_bytes(tile.row_block).first);
    if (tile.source == rank) return {kInputWindow, rank, at};
    return {kGatheredWindow, rank, tile.source * static_cast<uint64_t>(shard_bytes()) + at};
  }
  MK_HD constexpr uint64_t rows_bytes(const Tile& tile) const { return chunk_bytes(tile.row_block).count; }
  MK_HD constexpr int num_images() const { return 0; }  // the result goes to C
  MK_HD constexpr Place image_at(int, const Tile&) const { return {}; }
  MK_HD constexpr int receiver(int rank, const Tile&, int) const { return rank; }

  // By one rank in one launch: each part of its shard, and ready.
  MK_HD constexpr int64_t most_puts() const { return (world.nodes - 1) * (num_parts() + 1); }

  MK_HD constexpr int64_t num_parts() const { return static_cast<int64_t>(row_blocks) * parts; }  // of a shard
  MK_HD constexpr Part part_at(int64_t number) const {
    return {static_cast<int>(number) / parts, static_cast<int>(number) % parts};
  }
  MK_HD constexpr int64_t part_number(const Part& part) const { return int64_t{part.chunk} * parts + part.index; }
  MK_HD constexpr int64_t shard_bytes() const { return shard_rows * k * element_bytes; }
  MK_HD constexpr int64_t gathered_bytes() const { return shard_bytes() * world.size(); }
  MK_HD constexpr int64_t chunk_number(int source, int chunk) const {
    return static_cast<int64_t>(source) * row_blocks + chunk;
  }

  // What comes over a rail goes on to the node's peers.
  MK_HD constexpr bool passes_on() const { return world.nodes > 1 && world.ranks > 1; }

  // Signals.  ready: `peer` has started this launch, its gathered window may be written.
  // arrived: so many parts of a chunk lie in this rank's gathered window.
  // landed: so does this part of the rail peer's shard, and is to be passed on.
  MK_HD constexpr uint32_t ready(int peer) const { return static_cast<uint32_t>(peer); }
  MK_HD constexpr uint32_t arrived(int source, int chunk) const {
    return static_cast<uint32_t>(world.size() + chunk_number(source, chunk));
  }
  MK_HD constexpr uint32_t landed(int node, const Part& part) const {
    return static_cast<uint32_t>(arrived(world.size(), 0) + node * num_parts() + part_number(part));
  }
  // What the put of a part of `rank`'s shard tells a rail peer.
  MK_HD constexpr uint32_t signal_of_put(int rank, const Part& part) const {
    return passes_on() ? landed(world.node_of(rank), part) : arrived(rank, part.chunk);
  }
  MK_HD constexpr uint32_t num_signals() const { return landed(passes_on() ? world.nodes : 0, Part{}); }
};

// Throws Error(kInvalidArgument) naming the argument.
void check_problem(const Problem& problem, DeviceKind device);
void check_args(const Problem& problem, const runtime::Members& members, std::span<const AgGemmArgs> args,
                DeviceKind device);
Problem problem_of(const WorldShape& world, const runtime::Members& members, std::span<const AgGemmArgs> args);

// The tiling a device has for the problem; on a GPU the caller may choose among those that exist.
TileShape choose_tile(const Problem& problem, const TileSize& asked, DeviceKind device, const Roster& roles);

// The split for a rank's seats if the caller left it open; else the caller's, checked.
Roster choose_roles(const Problem& problem, const Split& asked, const Seats& seats);

// So many workers of each role; intra may be inside.
constexpr Roster roster(int intra, int send, int compute) { return {{intra}, {send}, {compute}}; }
constexpr Roster roster_with_intra_inside(int send, int compute) { return {{0, Seating::kInside}, {send}, {compute}}; }

Layout make_layout(const Problem& problem, const TileShape& tile, const Roster& roles);

// The layout that a rank with these seats on such a device has: split and tile are the caller's, or chosen.
Layout layout_for(const Problem& problem, const AgGemmOptions& options, const Seats& seats, DeviceKind device);

// Of each window, from kGatheredWindow on.
std::vector<uint64_t> window_bytes(const Layout& layout);

std::string signal_name(const Layout& layout, uint32_t signal);

}  // namespace mk::ag_gemm_op
