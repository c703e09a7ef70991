// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_protocol.h — who waits for what, and tells whom, in a whole layer of experts.
//
//   role       what moe_dispatch_protocol.h says, and then
//   send       …                                              records_landed[node] at the rail peer (stamp, by a put)
//   compute    arrived[block], of a tile of the first GEMM    activated[block]
//              activated[block], of one of the second         returned[expert] at the ranks that delivered its rows
//   dispatch   returned[expert], of a token's experts here;   sums_landed[node, chunk] at the rail peer (stamp, by a
//   put)
//              records_landed[node]
//              sums_landed[node, chunk], of its own tokens    nothing: `out` is written
//
// A token's results are summed where they come back: at its own rank, or in another node at its rail peer.  From there
// one row crosses, whatever the token has in that node.
//
// Hand-back is that of the dispatch: who returns results, or sums, has the counts of all ranks, so all have finished
// the launch before.  Records and sums are what puts read, and are settled.
//
// A body has, besides what the dispatch needs: expert_of_pair(pair) of this rank's tokens; activate(m, tile);
// multiply(m, tile), then return_row(tile, i, to) for each row; and clear_sum, add(from), store_sum(to),
// write_out(token) for sums.
#pragma once

#include "ops/moe/moe_dispatch_protocol.h"
#include "ops/moe/moe_layer_layout.h"

namespace mk::moe {

// A tile of either GEMM.
struct LayerTile : ExpertTile {
  bool is_second = false;
};

// Calls body(tile) for the tiles of one worker, in order, until body returns false.  Experts go in groups: all tiles of
// the first GEMM of a group, then those of the second, which so find their activations made or being made.
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
  for (int first = 0, last = 0; first < layout.local_experts(); first = last) {
    int64_t tiles = 0;
    for_each_expert(m, layout, first, layout.local_experts(), [&](int expert, int64_t, int64_t rows, int) {
      tiles += ceil_div<int64_t>(rows, layout.tile_m) * layout.act_blocks();
      last = expert + 1;
      return tiles < layout.group_tiles;
    });
    if (!pass(first, last, false) || !pass(first, last, true)) return false;
  }
  return true;
}

// The load job's part.
MK_PROTOCOL
template <Machine M>
MK_HD bool load_step(M& m, const LayerLayout& layout, const LayerTile& tile) {
  if (!tile.is_second) return load_step(m, static_cast<const Layout&>(layout), static_cast<const ExpertTile&>(tile));
  const uint64_t due = read_due(m, layout.plan_at(m.rank(), layout.due_word(tile.block)));
  if (!m.wait(layout.activated(tile.block), due * layout.act_blocks(), tile.number)) return false;
  m.load(layout.activation_at(m.rank(), tile.row), tile.rows * layout.act_bytes());
  return true;
}

// The store job's part, of the first GEMM: the body has written its columns of the rows' activations.
MK_PROTOCOL
template <Machine M>
MK_HD void tell_activated(M& m, const LayerLayout& layout, const LayerTile& tile) {
  const Range cols = block_range(layout.inter, layout.act_tile_n, tile.col_block);
  for (int i = 0; i < tile.rows; ++i) {
    Place to = layout.activation_at(m.rank(), tile.row + i);
    to.offset += cols.first * layout.element_bytes;
    m.store(to, cols.count * layout.element_bytes);
  }
  m.add(Signal{m.rank(), layout.activated(tile.block)}, tile.rows);
}

// The store job's part, of the second GEMM: each row goes to the rank that delivered it.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void return_rows(M& m, const LayerLayout& layout, const LayerTile& tile, Body& body) {
  const WorldShape& world = m.world();
  const int node = world.node_of(m.rank());
  const Range cols = block_range(layout.n, layout.tile_n, tile.col_block);
  const auto word_of_rows = [&](int first, int some, int word) {
    Place at = layout.origin_at(m.rank(), tile.row + first);
    at.offset += word * kWord;
    return m.read_list(at, some, sizeof(Route));
  };
  m.load(layout.origin_at(m.rank(), tile.row), tile.rows * sizeof(Route));
  for (int first = 0; first < tile.rows; first += kMostValues) {
    const int some = min_of(kMostValues, tile.rows - first);
    const auto ranks = word_of_rows(first, some, 1);
    const auto pairs = word_of_rows(first, some, 2);
    for (int i = 0; i < some; ++i) {
      const int rank = static_cast<int>(ranks[i]);
      Place to = layout.returned_at(world.rank_at(node, world.local_of(rank)), world.node_of(rank), pairs[i]);
      to.offset += cols.first * layout.element_bytes;
      body.return_row(tile, first + i, to);
      m.store(to, cols.count * layout.element_bytes);
    }
  }
  const int in_node = world.local_of(m.rank()) * layout.local_experts() + tile.expert;
  for (int step = 0; step < world.ranks; ++step) {
    const int local = world.local_of(peer_at(world, m.rank(), step));
    uint64_t rows = 0;
    for (int first = 0; first < tile.rows; first += kMostValues) {
      const int some = min_of(kMostValues, tile.rows - first);
      const auto ranks = word_of_rows(first, some, 1);
      for (int i = 0; i < some; ++i) rows += world.local_of(static_cast<int>(ranks[i])) == local ? 1 : 0;
    }
    if (rows > 0) m.add(Signal{world.rank_at(node, local), layout.returned(in_node)}, rows);
  }
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void compute(M& m, const LayerLayout& layout, const Post& post, Body& body) {
  for_each_tile(m, layout, post, [&](const LayerTile& tile) {
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

// Adds the result of a pair of the rail peer in `node`, which names this expert, if the expert is in this node.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool add_result(M& m, const LayerLayout& layout, int node, int64_t pair, int expert, Body& body) {
  const int here = m.world().node_of(m.rank());
  if (expert < 0 || layout.node_of_expert(expert) != here) return true;
  const int in_node = expert - layout.first_expert_of_node(here);
  const uint64_t due = read_due(m, layout.due_back_at(m.rank(), in_node));
  if (!m.wait(layout.returned(in_node), due * layout.col_blocks(), pair)) return false;
  m.load(layout.returned_at(m.rank(), node, pair), layout.row_bytes());
  body.add(layout.returned_at(m.rank(), node, pair));
  return true;
}

// Of a token that came from the node.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool sum_for_peer(M& m, const LayerLayout& layout, int node, int64_t index, Body& body) {
  const int64_t token = m.read(layout.record_in_at(m.rank(), node, index));
  body.clear_sum();
  for (int first = 0; first < layout.topk; first += kMostValues) {
    const int some = min_of(kMostValues, layout.topk - first);
    const auto ids = m.read_list(layout.record_in_at(m.rank(), node, index, 1 + first), some, kWord);
    for (int i = 0; i < some; ++i) {
      const int64_t pair = token * layout.topk + first + i;
      if (!add_result(m, layout, node, pair, static_cast<int>(ids[i]), body)) return false;
    }
  }
  body.store_sum(layout.sum_out_at(m.rank(), node, index));
  m.store(layout.sum_out_at(m.rank(), node, index), layout.row_bytes());
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool sum_for_peers(M& m, const LayerLayout& layout, const Post& post, Body& body) {
  const int here = m.world().node_of(m.rank());
  for (int step = 1; step < m.world().nodes; ++step) {
    const int node = layout.source_node_at(m.rank(), step);
    const int peer = m.world().rank_at(node, m.world().local_of(m.rank()));
    const int64_t rows = m.read(layout.counts_at(m.rank(), peer, m.epoch(), layout.crossing_word(here)));
    if (rows > 0 && !m.wait_stamp(layout.records_landed(node), here_in(m.epoch()), -1)) return false;
    for (int chunk = post.index; int64_t{chunk} * layout.chunk_rows < rows; chunk += post.count) {
      const Range range = block_range(rows, layout.chunk_rows, chunk);
      for (int64_t i = range.first; i < range.first + range.count; ++i) {
        if (!sum_for_peer(m, layout, node, i, body)) return false;
      }
      const Put put{.from = layout.sum_out_at(m.rank(), node, range.first),
                    .to = layout.sum_in_at(peer, here, range.first),
                    .bytes = static_cast<uint64_t>(range.count) * layout.row_bytes(),
                    .signal = {peer, layout.sums_landed(here, chunk)},
                    .stamp = here_in(m.epoch())};
      if (!m.put(put, chunk)) return false;
    }
  }
  return true;
}

// Of a token of this rank.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool sum_own(M& m, const LayerLayout& layout, int64_t token, Body& body) {
  const int here = m.world().node_of(m.rank());
  body.clear_sum();
  for (int slot = 0; slot < layout.topk; ++slot) {
    const int64_t pair = token * layout.topk + slot;
    if (!add_result(m, layout, here, pair, body.expert_of_pair(pair), body)) return false;
  }
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
    m.load(layout.sum_in_at(m.rank(), node, index), layout.row_bytes());
    body.add(layout.sum_in_at(m.rank(), node, index));
  }
  body.write_out(token);
  return true;
}

// First for others, who wait for it.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool combine(M& m, const LayerLayout& layout, const Post& post, Body& body) {
  if (m.read(layout.plan_at(m.rank(), layout.status_word())) != 0) return true;
  if (!sum_for_peers(m, layout, post, body)) return false;
  for (int64_t token = post.index; token < body.tokens(); token += post.count) {
    if (!sum_own(m, layout, token, body)) return false;
  }
  return true;
}

// Tokens, lists and records.
MK_PROTOCOL
template <Machine M>
MK_HD void send(M& m, const LayerLayout& layout, const Post& post) {
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
  m.settle();
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void dispatch(M& m, const LayerLayout& layout, const Post& post, Body& body) {
  if (!route(m, layout, post, body) || !deliver(m, layout, post) || !combine(m, layout, post, body)) return;
  if (m.world().nodes > 1) m.settle();
}

// A worker's launch.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void work(M& m, const LayerLayout& layout, const Post& post, Body& body) {
  if (post.role == LayerLayout::kCompute) return compute(m, layout, post, body);
  if (post.role == LayerLayout::kSend) return send(m, layout, post);
  dispatch(m, layout, post, body);
}

}  // namespace mk::moe
