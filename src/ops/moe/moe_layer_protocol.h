// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_protocol.h — who waits for what, and tells whom, in a whole layer of experts.
//
//   role       what moe_dispatch_protocol.h says, and then
//   send       …                                              records_landed[node] at the rail peer (stamp, by a put)
//              planned; records_landed[node]; then            sums_landed[node, chunk] at the rail peer (stamp, by a
//              returned[expert], of tokens that came          put)
//   compute    arrived[block], of a tile of the first GEMM    activated[block]
//              activated[block], of one of the second         returned[expert] at the ranks that delivered its rows
//              returned[expert], of all experts of the        nothing: `out` is written
//              node; sums_landed[node, chunk], of this
//              rank's own tokens
//
// A token's results are summed where they come back: at its own rank, or in another node at its rail peer.  From there
// one row crosses, whatever the token has in that node.  Own tokens are summed by those that compute, after their
// tiles: most tokens have a result among the last, and then all of a rank's memory bandwidth is free for it.
//
// Hand-back is that of the dispatch: who returns results, or sums, has the counts of all ranks, so all have finished
// the launch before.  Records and sums are what puts read, and are settled.
//
// A body has, besides what the dispatch needs: expert_of_pair(pair) of this rank's tokens; activate(tile);
// multiply(tile), then return_rows(tile, first, some, to_at) for all rows and write_rows(tile); and clear_sum,
// add(from), store_sum(to), write_out(token) for sums.  If pairs have scores, also take_score(slot, from) between
// those; return_rows of the tiles of the first columns writes the scores of their rows, too.
//
// A LayerLayout with scores is that of the backward pass (moe_backward_protocol.h).
#pragma once

#include <concepts>

#include "core/store_each.h"
#include "ops/moe/moe_dispatch_protocol.h"
#include "ops/moe/moe_layer_layout.h"

namespace mk::moe {

template <class L>
concept AnyLayerLayout = std::derived_from<L, LayerLayout>;

// A tile of either GEMM.
struct LayerTile : ExpertTile {
  bool is_second = false;
};

// Experts go in groups; a group has at least group_tiles of the first GEMM, or is the last.
MK_PROTOCOL
template <Machine M>
MK_HD int end_of_group(M& m, const LayerLayout& layout, int begin) {
  int end = begin;
  int64_t tiles = 0;
  for_each_expert(m, layout, begin, layout.local_experts(), [&](int expert, int64_t, int64_t rows, int) {
    tiles += ceil_div<int64_t>(rows, layout.tile_m) * layout.act_blocks();
    end = expert + 1;
    return tiles < layout.group_tiles;
  });
  return end;
}

// Calls body(tile) for the tiles of one worker, in order, until body returns false: the first GEMM of a group, then the
// second of the group before.  So a tile of the second GEMM finds its activations made, and they are not old.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool for_each_tile(M& m, const LayerLayout& layout, const Post& post, Body&& body) {
  if (!m.wait(layout.planned(), m.epoch(), -1)) return false;
  const auto status = m.read_list(layout.plan_at(m.rank(), layout.status_word()), 2, kWord);
  if (status[0] != 0) return false;
  const int64_t all = int64_t{status[1]} * (layout.act_blocks() + layout.col_blocks());
  int64_t next = post.index;
  int64_t before = 0;
  const auto pass = [&](int first, int last, bool is_second) {
    const int cols = is_second ? layout.col_blocks() : layout.act_blocks();
    return for_each_expert(m, layout, first, last, [&](int expert, int64_t first_row, int64_t rows, int first_block) {
      const int blocks = static_cast<int>(ceil_div<int64_t>(rows, layout.tile_m));
      for (; next < before + int64_t{blocks} * cols; next += post.count) {
        const GridPos at = banded(static_cast<int>(next - before), blocks, cols, kBandBlocks);
        const Range range = block_range(rows, layout.tile_m, at.row);
        const LayerTile tile{{next, expert, first_block + at.row, first_row + range.first,
                              static_cast<int>(range.count), at.col, tiles_after(next, post, all)},
                             is_second};
        if (!body(tile)) return false;
      }
      before += int64_t{blocks} * cols;
      return true;
    });
  };
  // [begin, end) of the group in hand; the one before it has had its first GEMM only.
  int before_begin = 0;
  int begin = 0;
  while (begin < layout.local_experts()) {
    const int end = end_of_group(m, layout, begin);
    if (!pass(begin, end, false)) return false;
    if (begin > 0 && !pass(before_begin, begin, true)) return false;
    before_begin = begin;
    begin = end;
  }
  return pass(before_begin, begin, true);
}

// The load job's part.
MK_PROTOCOL
template <Machine M>
MK_HD bool load_step(M& m, const LayerLayout& layout, const LayerTile& tile) {
  if (!tile.is_second) return load_step(m, static_cast<const Layout&>(layout), static_cast<const ExpertTile&>(tile));
  const Place due = layout.plan_at(m.rank(), layout.due_word(tile.block));
  const auto times = static_cast<uint64_t>(layout.act_blocks());
  if (!wait_due(m, {layout.activated(tile.block), due, times}, tile.number)) return false;
  m.load(layout.activation_at(m.rank(), tile.row), tile.rows * layout.act_bytes());
  return true;
}

// The body has written `bytes` for each of the tile's rows, at `at(row)`.
MK_PROTOCOL
template <Machine M, class At>
MK_HD void say_stored(M& m, const LayerTile& tile, uint64_t bytes, const At& at) {
  for (int first = 0; first < tile.rows; first += kMostValues) {
    const auto to_at = [&](int i) { return at(tile.row + first + i); };
    store_each(m, min_of(kMostValues, tile.rows - first), to_at, bytes);
  }
}

// The store job's part, of the first GEMM: the body has written its columns of the rows' activations.
MK_PROTOCOL
template <Machine M>
MK_HD void tell_activated(M& m, const LayerLayout& layout, const LayerTile& tile) {
  const Range cols = block_range(layout.inter, layout.act_tile_n, tile.col_block);
  say_stored(m, tile, cols.count * layout.element_bytes, [&](int64_t row) {
    Place to = layout.activation_at(m.rank(), row);
    to.offset += cols.first * layout.element_bytes;
    return to;
  });
  m.add(Signal{m.rank(), layout.activated(tile.block)}, tile.rows);
}

// The store job's part, of the second GEMM: each row goes to the rank that delivered it.  return_rows says where; the
// body writes them then or, at the latest, in write_rows.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD void return_rows(M& m, const L& layout, const LayerTile& tile, Body& body) {
  const WorldShape& world = m.world();
  const int node = world.node_of(m.rank());
  const Range cols = block_range(layout.n, layout.tile_n, tile.col_block);
  const auto word_of_rows = [&](int first, int some, int word) {
    Place at = layout.origin_at(m.rank(), tile.row + first);
    at.offset += word * kWord;
    return m.read_list(at, some, sizeof(Route));
  };
  m.load(layout.origin_at(m.rank(), tile.row), tile.rows * sizeof(Route));
  if constexpr (L::kHasScores) {
    if (tile.col_block == 0) m.load(layout.part_at(m.rank(), tile.row), tile.rows * layout.parts_bytes());
  }
  for (int first = 0; first < tile.rows; first += kMostValues) {
    const int some = min_of(kMostValues, tile.rows - first);
    const auto ranks = word_of_rows(first, some, 1);
    const auto pairs = word_of_rows(first, some, 2);
    const auto to_at = [&](int i) {
      const int rank = static_cast<int>(ranks.own(i));
      Place to = layout.returned_at(world.rank_at(node, world.local_of(rank)), world.node_of(rank), pairs.own(i));
      to.offset += cols.first * layout.element_bytes;
      return to;
    };
    body.return_rows(tile, first, some, to_at);
    store_each(m, some, to_at, cols.count * layout.element_bytes);
    if constexpr (L::kHasScores) {
      const auto score_at = [&](int i) { return layout.score_in(to_at(i)); };
      if (tile.col_block == 0) store_each(m, some, score_at, sizeof(float));
    }
  }
  body.write_rows(tile);
  const int in_node = world.local_of(m.rank()) * layout.local_experts() + tile.expert;
  for (int step = 0; step < world.ranks; ++step) {
    const int local = world.local_of(peer_at(world, m.rank(), step));
    uint64_t rows = world.ranks == 1 ? tile.rows : 0;
    for (int first = 0; first < tile.rows && world.ranks > 1; first += kMostValues) {
      const int some = min_of(kMostValues, tile.rows - first);
      rows += word_of_rows(first, some, 1).count_if(some, [&](uint32_t rank) {
        return world.local_of(static_cast<int>(rank)) == local;
      });
    }
    if (rows > 0) m.add(Signal{world.rank_at(node, local), layout.returned(in_node)}, rows);
  }
}

// All results of an expert of the node that come back here.
MK_HD inline DueWait due_back(const LayerLayout& layout, int rank, int in_node) {
  return {layout.returned(in_node), layout.due_back_at(rank, in_node), static_cast<uint64_t>(layout.col_blocks())};
}

// Hands results of pairs of the rail peer in `node` to the body.  expert_of(i) is the expert that pair i names, or -1.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body, class ExpertOf>
MK_HD void add_results(M& m, const L& layout, int node, int64_t first_pair, int pairs, Body& body,
                       const ExpertOf& expert_of) {
  const int here = m.world().node_of(m.rank());
  for (int i = 0; i < pairs; ++i) {
    const int expert = expert_of(i);
    if (expert < 0 || layout.node_of_expert(expert) != here) continue;
    const Place from = layout.returned_at(m.rank(), node, first_pair + i);
    m.load(from, layout.row_bytes());
    body.add(from);
    if constexpr (L::kHasScores) {
      m.load(layout.score_in(from), sizeof(float));
      body.take_score(static_cast<int>((first_pair + i) % layout.topk), layout.score_in(from));
    }
  }
}

// Of a token that came from the node.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool sum_for_peer(M& m, const L& layout, int node, int64_t index, Body& body) {
  const int here = m.world().node_of(m.rank());
  const int64_t token = m.read(layout.record_in_at(m.rank(), node, index));
  body.clear_sum();
  for (int first = 0; first < layout.topk; first += kMostValues) {
    const int some = min_of(kMostValues, layout.topk - first);
    const auto ids = m.read_list(layout.record_in_at(m.rank(), node, index, 1 + first), some, kWord);
    const auto due = [&](int i) {
      const int expert = static_cast<int>(ids.own(i));
      if (expert < 0 || layout.node_of_expert(expert) != here) return DueWait{};
      return due_back(layout, m.rank(), expert - layout.first_expert_of_node(here));
    };
    const int64_t pair = token * layout.topk + first;
    if (!wait_each_due(m, some, due, pair)) return false;
    add_results(m, layout, node, pair, some, body, [&](int i) { return static_cast<int>(ids[i]); });
  }
  body.store_sum(layout.sum_out_at(m.rank(), node, index));
  m.store(layout.sum_out_at(m.rank(), node, index), layout.sum_bytes());
  return true;
}

MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool sum_for_peers(M& m, const L& layout, const Post& post, Body& body) {
  const int here = m.world().node_of(m.rank());
  if (!m.wait(layout.planned(), m.epoch(), -1)) return false;
  const bool is_refused = m.read(layout.plan_at(m.rank(), layout.status_word())) != 0;
  for (int step = 1; step < m.world().nodes; ++step) {
    const int node = layout.source_node_at(m.rank(), step);
    const int peer = m.world().rank_at(node, m.world().local_of(m.rank()));
    const int64_t rows = m.read(layout.counts_at(m.rank(), peer, m.epoch(), layout.crossing_word(here)));
    if (rows > 0 && !m.wait_stamp(layout.records_landed(node), here_in(m.epoch()), -1)) return false;
    if (is_refused) continue;
    for (int chunk = post.index; int64_t{chunk} * layout.chunk_rows < rows; chunk += post.count) {
      const Range range = block_range(rows, layout.chunk_rows, chunk);
      for (int64_t i = range.first; i < range.first + range.count; ++i) {
        if (!sum_for_peer(m, layout, node, i, body)) return false;
      }
      const Put put{.from = layout.sum_out_at(m.rank(), node, range.first),
                    .to = layout.sum_in_at(peer, here, range.first),
                    .bytes = static_cast<uint64_t>(range.count) * layout.sum_bytes(),
                    .signal = {peer, layout.sums_landed(here, chunk)},
                    .stamp = here_in(m.epoch())};
      if (!m.put(put, chunk)) return false;
    }
  }
  return true;
}

// Of a token of this rank.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool sum_own(M& m, const L& layout, int64_t token, Body& body) {
  const int here = m.world().node_of(m.rank());
  const int64_t first_pair = token * layout.topk;
  body.clear_sum();
  add_results(m, layout, here, first_pair, layout.topk, body,
              [&](int slot) { return body.expert_of_pair(first_pair + slot); });
  for (int step = 1; step < m.world().nodes; ++step) {
    const int node = wrap(here + step, m.world().nodes);
    bool crosses = false;
    for (int slot = 0; slot < layout.topk; ++slot) {
      const int expert = body.expert_of_pair(token * layout.topk + slot);
      crosses = crosses || (expert >= 0 && layout.node_of_expert(expert) == node);
    }
    if (!crosses) continue;
    const int64_t index = m.read(layout.crossed_at(m.rank(), node, token));
    const int chunk = static_cast<int>(index / layout.chunk_rows);
    if (!m.wait_stamp(layout.sums_landed(node, chunk), here_in(m.epoch()), token)) return false;
    const Place from = layout.sum_in_at(m.rank(), node, index);
    m.load(from, layout.sum_bytes());
    body.add(from);
    if constexpr (L::kHasScores) {
      for (int slot = 0; slot < layout.topk; ++slot) {
        const int expert = body.expert_of_pair(token * layout.topk + slot);
        if (expert >= 0 && layout.node_of_expert(expert) == node) body.take_score(slot, layout.score_in(from, slot));
      }
    }
  }
  body.write_out(token);
  return true;
}

// Until all results that come back to this rank in its node are here.  Most tokens have one among the last, so nobody
// waits for those of a single own token.  False also if the launch was refused.
MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_results(M& m, const LayerLayout& layout) {
  if (!m.wait(layout.planned(), m.epoch(), -1)) return false;
  if (m.read(layout.plan_at(m.rank(), layout.status_word())) != 0) return false;
  if (m.world().nodes > 1 && !wait_for_lists(m, layout)) return false;  // they say where a token crossed
  for (int step = 0; step < m.world().nodes; ++step) {
    for (int first = 0; first < layout.node_experts(); first += kMostValues) {
      const int some = min_of(kMostValues, layout.node_experts() - first);
      const auto bundles = m.read_list(layout.plan_at(m.rank(), layout.bundles_word(step, first)), some, kWord);
      const auto due = [&](int i) {
        if (bundles.own(i) == 0) return DueWait{};
        return due_back(layout, m.rank(), layout.expert_at_visit(m.rank(), first + i));
      };
      if (!wait_each_due(m, some, due, first)) return false;
    }
  }
  return true;
}

// This worker's part of the rank's own tokens, after wait_for_results.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool sum_tokens(M& m, const L& layout, const Post& post, Body& body) {
  for (int64_t token = post.index; token < body.tokens(); token += post.count) {
    if (!sum_own(m, layout, token, body)) return false;
  }
  return true;
}

// Tiles of both GEMMs.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool compute_tiles(M& m, const L& layout, const Post& post, Body& body) {
  return for_each_tile(m, layout, post, [&](const LayerTile& tile) {
    if (!load_step(m, layout, tile)) return false;
    m.note(Event{EventKind::kTileBegin, tile.number, m.rank()});
    if (tile.is_second) {
      body.multiply(tile);
      return_rows(m, layout, tile, body);
    } else {
      body.activate(tile);
      tell_activated(m, layout, tile);
    }
    m.note(Event{EventKind::kTileEnd, tile.number, m.rank()});
    return true;
  });
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void compute(M& m, const LayerLayout& layout, const Post& post, Body& body) {
  if (compute_tiles(m, layout, post, body) && wait_for_results(m, layout)) sum_tokens(m, layout, post, body);
}

// Tokens, lists and records; then sums of what came back of the tokens that others sent here.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD void send(M& m, const L& layout, const Post& post, Body& body) {
  if (!wait_for_lists(m, layout)) return;
  const int here = m.world().node_of(m.rank());
  for (int step = 1; step < m.world().nodes; ++step) {
    if (!send_to(m, layout, post, step)) return;
    const int peer = rail_peer_at(m.world(), m.rank(), step);
    const int there = m.world().node_of(peer);
    const uint64_t rows = m.read(layout.counts_at(m.rank(), m.rank(), m.epoch(), layout.crossing_word(there)));
    if (rows == 0 || step % post.count != post.index) continue;
    const Put put{.from = layout.record_at(m.rank(), there, 0),
                  .to = layout.record_in_at(peer, here, 0),
                  .bytes = rows * layout.record_bytes(),
                  .signal = {peer, layout.records_landed(here)},
                  .stamp = here_in(m.epoch())};
    if (!m.put(put, peer)) return;
  }
  if (sum_for_peers(m, layout, post, body)) m.settle();
}

// The roles besides compute.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD void communicate(M& m, const L& layout, const Post& post, Body& body) {
  if (post.role == Layout::kSend) return send(m, layout, post, body);
  dispatch(m, static_cast<const Layout&>(layout), post, body);
}

// A worker's launch.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD void work(M& m, const L& layout, const Post& post, Body& body) {
  if (post.role == Layout::kCompute) return compute(m, layout, post, body);
  communicate(m, layout, post, body);
}

}  // namespace mk::moe
