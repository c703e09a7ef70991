// SPDX-License-Identifier: MIT
// ops/gemm_rs/gemm_rs_problem.h — how GEMM+ReduceScatter is cut, where partial results lie, and what is refused.
//
// A rank's rows of the result are its *shard*; the rank is their *owner*.  In each node the rank on the
// owner's rail is their *reducer*.  Layout is plain data and pure functions: protocol, kernels, ledger
// and tests all read it.  In a Tile, `source` is the owner.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/macros.h"
#include "core/roles.h"
#include "core/tile.h"
#include "core/window.h"
#include "core/world_shape.h"
#include "ops/cost_model.h"
#include "ops/gemm/gemm_problem.h"
#include "ops/sums/addends.h"
#include "ops/tile_image.h"
#include "target/sm90/gemm_config.h"

namespace mk::gemm_rs_op {

using gemm::Problem;
using gemm::TileShape;

// The operator's windows.  Each holds images of a shard.
constexpr uint32_t kPartialsWindow = kFirstOperatorWindow;  // at the reducer: [owner node][source in this node]
constexpr uint32_t kOutgoingWindow =
    kFirstOperatorWindow + 1;  // at the reducer: [other owner nodes], this node's sum on its way out
constexpr uint32_t kIncomingWindow = kFirstOperatorWindow + 2;  // at the owner: [other nodes], their sums

struct Layout {
  enum : int { kReduce, kCompute };
  static constexpr std::array<RoleName, 2> kRoles = {{{"reduce", "tile"}, {"compute", "tile"}}};

  WorldShape world;
  TileImage shard;  // M/W × N
  int64_t k = 0;
  int band = 1;
  Roster roles;

  using Configs = sm90::SoloConfigs;
  static constexpr int cluster = 1;
  static constexpr bool kSums = true;
  static constexpr bool kKeepsStep = true;
  static constexpr bool kGathers = false;  // a rank multiplies its own rows only
  static constexpr Output kOutput = Output::kShard;
  MK_HD constexpr const TileImage& image() const { return shard; }
  MK_HD constexpr int64_t m() const { return world.size() * shard.rows; }
  MK_HD constexpr int64_t a_rows() const { return m(); }  // of a rank
  MK_HD constexpr int64_t num_tiles() const { return world.size() * shard.tiles(); }
  MK_HD constexpr int64_t num_reduced() const { return world.nodes * shard.tiles(); }  // by one reducer
  MK_HD constexpr int reducer_of(int rank, int owner) const {
    return world.rank_at(world.node_of(rank), world.local_of(owner));
  }

  // A tile's rows of A.
  MK_HD constexpr Place rows_place(int rank, const Tile& tile) const {
    const int64_t row = tile.source * shard.rows + shard.rows_of(tile).first;
    return {kInputWindow, rank, static_cast<uint64_t>(row * k * shard.element_bytes)};
  }
  MK_HD constexpr uint64_t rows_bytes(const Tile& tile) const {
    return static_cast<uint64_t>(shard.rows_of(tile).count * k * shard.element_bytes);
  }
  MK_HD constexpr int num_images() const { return world.size() == 1 ? 0 : 1; }
  MK_HD constexpr Place image_at(int rank, const Tile& tile) const { return partial_place(rank, tile); }
  MK_HD constexpr int receiver(int rank, const Tile& tile, int) const { return reducer_of(rank, tile.source); }

  // By one rank in one launch: each tile of the other nodes' rows, and ready.
  MK_HD constexpr int64_t most_puts() const { return (world.nodes - 1) * (shard.tiles() + 1); }

  // Where the partial result of a tile by `source` lies, at the tile's reducer in the source's node.
  MK_HD constexpr Place partial_place(int source, const Tile& tile) const {
    const int slot = world.node_of(tile.source) * world.ranks + world.local_of(source);
    return in_slot(kPartialsWindow, reducer_of(source, tile.source), slot, tile);
  }
  // The partial results of a tile from all ranks of the reducer's node, in order.
  MK_HD constexpr sums::Addends partials(int reducer, const Tile& tile) const {
    const int first = world.rank_at(world.node_of(reducer), 0);
    return {partial_place(first, tile), static_cast<uint64_t>(shard.bytes()), world.ranks};
  }
  // Where a reducer keeps its node's sum for an owner on another node.
  MK_HD constexpr Place outgoing_place(int reducer, const Tile& tile) const {
    return in_slot(kOutgoingWindow, reducer, slot_among_others(tile.source, world.node_of(reducer)), tile);
  }
  // Where the sum of another node lies at the owner.
  MK_HD constexpr Place incoming_place(int from_node, const Tile& tile) const {
    const int own = world.node_of(tile.source);
    return in_slot(kIncomingWindow, tile.source, from_node < own ? from_node : from_node - 1, tile);
  }
  // All there is to sum for a tile of the owner's.
  MK_HD constexpr sums::NodeSums node_sums(const Tile& tile) const {
    const sums::Addends others{in_slot(kIncomingWindow, tile.source, 0, tile), static_cast<uint64_t>(shard.bytes()),
                               world.nodes - 1};
    return {partials(tile.source, tile), others, world.node_of(tile.source)};
  }

  // Signals.  ready: `peer` has begun this launch, its windows may be written.  partial: all ranks of this
  // node have delivered a tile of the owner on `owner_node` that this rank reduces.  arrived: the sum of
  // another node for an own tile lies here.
  MK_HD constexpr uint32_t ready(int peer) const { return static_cast<uint32_t>(peer); }
  MK_HD constexpr uint32_t partial(int owner_node, const Tile& tile) const {
    return static_cast<uint32_t>(world.size() + owner_node * shard.tiles() + shard.index(tile));
  }
  MK_HD constexpr uint32_t arrived(int from_node, const Tile& tile) const {
    return static_cast<uint32_t>(world.size() + (world.nodes + from_node) * shard.tiles() + shard.index(tile));
  }
  MK_HD constexpr uint32_t num_signals() const {
    return static_cast<uint32_t>(world.size() + (world.nodes > 1 ? 2 : 1) * world.nodes * shard.tiles());
  }

 private:
  MK_HD constexpr Place in_slot(uint32_t window, int rank, int slot, const Tile& tile) const {
    return Place{window, rank, static_cast<uint64_t>(slot * shard.bytes() + shard.tile_bytes(tile).first)};
  }
  MK_HD constexpr int slot_among_others(int owner, int node) const {
    return world.node_of(owner) < node ? world.node_of(owner) : world.node_of(owner) - 1;
  }
};

void check_problem(const Problem& problem, DeviceKind device);

cost::RankWork work_of(const Problem& problem);

// How many workers each of so many roles has for sums of this problem; `most` have something to do.
int share_of(const Problem& problem, int roles, const cost::RankWork& work, const Seats& seats, int most);

// One for each tile of so many rows and columns: more have nothing to do.
int most_reducers(const Seats& seats, int64_t rows, int64_t cols);

// The split for a rank's seats if the caller left it open; else the caller's, checked.
Roster choose_roles(const Problem& problem, const Split& asked, const Seats& seats);

constexpr Roster roster(int reduce, int compute) { return {{reduce}, {compute}}; }

Layout make_layout(const Problem& problem, const TileShape& tile, const Roster& roles);

// The layout that a rank with these seats on such a device has: the split is the caller's, or chosen.
Layout layout_for(const Problem& problem, const Split& split, const Seats& seats, DeviceKind device);

// Of each window, from kPartialsWindow on.
std::vector<uint64_t> window_bytes(const Layout& layout);

std::string signal_name(const Layout& layout, uint32_t signal);

}  // namespace mk::gemm_rs_op
