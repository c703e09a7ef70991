// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_one_shot.h — how GEMM+AllReduce in one shot is cut: everybody reduces everything.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/roles.h"
#include "core/schedule.h"
#include "core/window.h"
#include "core/world_shape.h"
#include "ops/sums/addends.h"
#include "ops/tile_image.h"
#include "target/sm90/gemm_config.h"

namespace mk::gemm_ar_op {

// The windows hold images of the whole result.
constexpr uint32_t kNodePartialsWindow = kFirstOperatorWindow;   // [source in this node]
constexpr uint32_t kNodeSumWindow = kFirstOperatorWindow + 1;    // this node's sum, rounded
constexpr uint32_t kOtherSumsWindow = kFirstOperatorWindow + 2;  // [other nodes], their sums

struct OneShotLayout {
  enum : int { kReduce, kCompute };
  static constexpr std::array<RoleName, 2> kRoles = {{{"reduce", "tile"}, {"compute", "tile"}}};

  WorldShape world;
  TileImage whole;  // M × N; in a Tile, source is 0
  int64_t k = 0;
  int band = 1;
  Roster roles;

  using Configs = sm90::SoloConfigs;
  static constexpr int cluster = 1;
  static constexpr bool kSums = true;
  static constexpr bool kKeepsStep = true;
  static constexpr bool kGathers = false;  // a rank multiplies its own rows only
  static constexpr Output kOutput = Output::kAll;
  MK_HD constexpr const TileImage& image() const { return whole; }
  MK_HD constexpr int64_t m() const { return whole.rows; }
  MK_HD constexpr int64_t a_rows() const { return m(); }  // of a rank
  MK_HD constexpr int64_t num_tiles() const { return whole.tiles(); }
  MK_HD constexpr int64_t most_puts() const { return (world.nodes - 1) * (whole.tiles() + 1); }

  // A tile's rows of A.
  MK_HD constexpr Place rows_place(int rank, const Tile& tile) const {
    return {kInputWindow, rank, static_cast<uint64_t>(whole.rows_of(tile).first * k * whole.element_bytes)};
  }
  MK_HD constexpr uint64_t rows_bytes(const Tile& tile) const {
    return static_cast<uint64_t>(whole.rows_of(tile).count * k * whole.element_bytes);
  }
  // Its result goes to the peers of the node, then to the rank itself.
  MK_HD constexpr int num_images() const { return world.size() == 1 ? 0 : world.ranks; }
  MK_HD constexpr int receiver(int rank, const Tile&, int step) const { return peer_at(world, rank, step + 1); }
  MK_HD constexpr Place image_at(int rank, const Tile& tile) const {
    return partial_place(receiver(rank, tile, 0), rank, tile);
  }

  // Where the partial result of a node's `source` lies at one of its ranks.
  MK_HD constexpr Place partial_place(int at, int source, const Tile& tile) const {
    return in_slot(kNodePartialsWindow, at, world.local_of(source), tile);
  }
  MK_HD constexpr sums::Addends partials(int rank, const Tile& tile) const {
    return {in_slot(kNodePartialsWindow, rank, 0, tile), static_cast<uint64_t>(whole.bytes()), world.ranks};
  }
  MK_HD constexpr Place node_sum_place(int rank, const Tile& tile) const {
    return in_slot(kNodeSumWindow, rank, 0, tile);
  }
  MK_HD constexpr Place other_sum_place(int at, int from_node, const Tile& tile) const {
    return in_slot(kOtherSumsWindow, at, from_node < world.node_of(at) ? from_node : from_node - 1, tile);
  }
  // All ranks must make the same bits, so the own node's sum is taken rounded, as the others get it.
  MK_HD constexpr sums::NodeSums node_sums(int rank, const Tile& tile) const {
    if (world.nodes == 1) return {partials(rank, tile), {}, 0};
    const sums::Addends own{node_sum_place(rank, tile), 0, 1};
    const sums::Addends others{in_slot(kOtherSumsWindow, rank, 0, tile), static_cast<uint64_t>(whole.bytes()),
                               world.nodes - 1};
    return {own, others, world.node_of(rank)};
  }

  // Signals.  ready: `peer` has begun this launch, its windows may be written.  partial: all ranks of this
  // node have delivered a tile here.  arrived: another node's sum of a tile lies here.
  MK_HD constexpr uint32_t ready(int peer) const { return static_cast<uint32_t>(peer); }
  MK_HD constexpr uint32_t partial(const Tile& tile) const {
    return static_cast<uint32_t>(world.size() + whole.index(tile));
  }
  MK_HD constexpr uint32_t arrived(int from_node, const Tile& tile) const {
    return static_cast<uint32_t>(world.size() + (1 + from_node) * whole.tiles() + whole.index(tile));
  }
  MK_HD constexpr uint32_t num_signals() const {
    return static_cast<uint32_t>(world.size() + (world.nodes > 1 ? 1 + world.nodes : 1) * whole.tiles());
  }

 private:
  MK_HD constexpr Place in_slot(uint32_t window, int rank, int slot, const Tile& tile) const {
    return Place{window, rank, static_cast<uint64_t>(slot * whole.bytes() + whole.tile_bytes(tile).first)};
  }
};

std::vector<uint64_t> window_bytes(const OneShotLayout& layout);
std::string signal_name(const OneShotLayout& layout, uint32_t signal);

}  // namespace mk::gemm_ar_op
