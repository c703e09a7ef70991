// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_protocol.h — who waits for what, and tells whom, in a whole layer of experts.
//
//   role       what moe_dispatch_protocol.h says, and then
//   send       …                                              records_landed[node] at the rail peer (stamp, by a put)
//              planned; records_landed[node]; then            sums_landed[node, chunk] at the rail peer (stamp, by a
//              returned[batch], of tokens that came           put)
//   compute    arrived[block], of a tile of the first GEMM    activated[block]
//              activated[block], of one of the second         returned[batch] at the ranks that delivered its rows
//              returned[0]; sums_landed[node, chunk], of      nothing: `out` is written
//              this rank's own tokens
//
// A token's results are summed by the rank that delivered it: its own or, in another node, its rail peer.  That rank
// reads them where they were made; whoever delivers a row keeps its place.  From a rail peer one row crosses, whatever
// the token has in that node.  Own tokens are summed by those that compute, after their tiles: most tokens have a
// result among the last, and then all of a rank's memory bandwidth is free for it.
//
// Hand-back is that of the dispatch: who makes results, or sums, has the counts of all ranks, so all have finished the
// launch before, and have read what they sum.  Records and sums are what puts read, and are settled.
//
// A body has, besides what the dispatch needs: keep_places(row, rows, to_at); expert_of(token, slot) of this
// rank's; activate(tile); multiply(tile); and clear_sum, add(from), store_sum(to), write_out(token) for sums.  If pairs
// have scores, also make_scores(tile), of results, and take_score(slot, from) between those of sums.
//
// A LayerLayout with scores is that of the backward pass (moe_backward_protocol.h).
#pragma once

#include <utility>

#include "core/for_each_key.h"
#include "core/store_each.h"
#include "ops/moe/moe_dispatch_protocol.h"
#include "ops/moe/moe_layer_layout.h"
#include "ops/moe/moe_sums_protocol.h"

namespace mk::moe {

// Blocks, as the rank numbers them, whose tiles take turns.
struct Band {
  BlockRuns blocks;
  int first = 0;  // of `blocks`
  int count = 1;

  MK_HD constexpr int at(int i) const { return blocks.at(first + i); }
};

// A tile of either GEMM.
struct LayerTile : ExpertTile {
  bool is_second = false;
  Band band;
};

// Segments go in groups; a group has at least group_tiles tiles of the first GEMM, or is the last.
MK_PROTOCOL
template <Machine M>
MK_HD int end_of_group(M& m, const LayerLayout& layout, int begin) {
  int end = begin;
  int64_t tiles = 0;
  for_each_segment(m, layout, begin, layout.num_segments(), [&](const Segment& segment) {
    tiles += segment.blocks.count * layout.act_blocks();
    end = segment.number + 1;
    return tiles < layout.group_tiles;
  });
  return end;
}

// Calls body(tile) for the tiles of one worker, in order, until body returns false: the first GEMM of a group, then the
// second of the group before.  So a tile of the second GEMM finds its activations made, and they are not old.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool for_each_tile(M& m, const LayerLayout& layout, const Post& post, Body&& body) {
  if (!wait_for_plan(m, layout)) return false;
  if (m.read(layout.plan_at(m.rank(), layout.status_word())) != 0) return false;
  int64_t next = first_turn(m, post);
  int64_t before = 0;
  const auto walk = [&](int first, int last, bool is_second) {
    const int cols = is_second ? layout.col_blocks() : layout.act_blocks();
    return for_each_segment(m, layout, first, last, [&](const Segment& segment) {
      const int blocks = segment.blocks.count;
      BlockRuns in_rank = segment.blocks;
      in_rank.first += segment.first_block;
      const int64_t end = before + int64_t{blocks} * cols;
      for (; next < end; next = next_turn(m, post, next)) {
        const GridPos at = banded(static_cast<int>(next - before), blocks, cols, kBandBlocks);
        const int band = at.row / kBandBlocks * kBandBlocks;
        const LayerTile tile{tile_of(layout, segment, at, next), is_second,
                             Band{in_rank, band, min_of(kBandBlocks, blocks - band)}};
        if (!body(tile)) return false;
      }
      before = end;
      return true;
    });
  };
  // [begin, end) of the group in hand; the one before it has had its first GEMM only.
  int before_begin = 0;
  int begin = 0;
  while (begin < layout.num_segments()) {
    const int end = end_of_group(m, layout, begin);
    if (!walk(begin, end, false)) return false;
    if (begin > 0 && !walk(before_begin, begin, true)) return false;
    before_begin = begin;
    begin = end;
  }
  return walk(before_begin, begin, true);
}

// The load job's part.  A tile of the second GEMM is short, and a look at a signal takes a good part of it; so the
// first one of a band waits for all of its blocks, and `band` says which one that was.  It is -1 at first.  `due_rows`
// is rows_due of a tile of the first GEMM.
MK_PROTOCOL
template <Machine M>
MK_HD bool load_step(M& m, const LayerLayout& layout, const LayerTile& tile, uint64_t due_rows, int& band) {
  if (!tile.is_second) {
    return load_step(m, static_cast<const Layout&>(layout), static_cast<const ExpertTile&>(tile), due_rows);
  }
  const auto due = [&](int i) {
    const int block = tile.band.at(i);
    return DueWait{layout.activated(block), layout.plan_at(m.rank(), layout.due_word(block)),
                   static_cast<uint64_t>(layout.act_blocks())};
  };
  if (tile.band.at(0) != band && !wait_each_due(m, tile.band.count, due, tile.number)) return false;
  band = tile.band.at(0);
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

// After the store of a tile of the first GEMM: the body has written its columns of the rows' activations.
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

// Whom to tell of rows of a tile of the second GEMM: for each row a rank of the node, and a batch that it delivered.
// Found out before results are there.
MK_PROTOCOL
template <Machine M>
class Deliverers {
 public:
  MK_HD Deliverers(M& m, const LayerLayout& layout, const LayerTile& tile) : layout_(layout), rows_(tile.rows) {
    if (m.world().size() == 1) return;
    const int node = layout.node_of(m.rank());
    m.load(layout.origin_at(m.rank(), tile.row), tile.rows * sizeof(Route));
    for (int group = 0; group * kMostValues < rows_; ++group) {
      const auto word_of_rows = [&](int word) {
        Place at = layout.origin_at(m.rank(), tile.row + group * kMostValues);
        at.offset += word * kWord;
        return m.read_list(at, in_group(group), sizeof(Route));
      };
      const auto ranks = word_of_rows(1);
      const auto pairs = word_of_rows(2);
      keys_[group] = list_of(m, in_group(group), [&](int i) {
        const int rank = static_cast<int>(ranks.own(i));
        const int token = layout.by.topk.quotient(static_cast<int>(pairs.own(i)));
        const int step = layout.step_from(node, layout.node_of(rank));
        const int batch = layout.batch_of(layout.phase_of_token(token), step);
        return static_cast<uint32_t>(layout.local_of(rank) * layout.num_batches() + batch);
      });
    }
  }

  MK_HD void tell(M& m) const {
    if (m.world().size() == 1) return m.add(Signal{m.rank(), layout_.returned(0)}, rows_);
    const int first_rank = m.world().rank_at(layout_.node_of(m.rank()), 0);
    for (int group = 0; group * kMostValues < rows_; ++group) {
      for_each_key(
          m, in_group(group), [&](int i) { return keys_[group].own(i); },
          [&](uint32_t key, int rows) {
            const int local = layout_.by.batches.quotient(static_cast<int>(key));
            const int batch = static_cast<int>(key) - local * layout_.num_batches();
            m.add(Signal{first_rank + local, layout_.returned(batch)}, rows);
          });
    }
  }

 private:
  static constexpr int kMostGroups = kMostTileRows / kMostValues;
  using List = decltype(list_of(std::declval<M&>(), 0, [](int) { return uint32_t{0}; }));

  MK_HD int in_group(int group) const { return min_of(kMostValues, rows_ - group * kMostValues); }

  const LayerLayout& layout_;
  const int rows_;
  List keys_[kMostGroups];
};

// After the store of a tile of the second GEMM: the body has written its columns of the rows' results.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD void tell_returned(M& m, const L& layout, const LayerTile& tile, const Deliverers<M>& deliverers, Body& body) {
  const Range cols = block_range(layout.n, layout.tile_n, tile.col_block);
  say_stored(m, tile, cols.count * layout.element_bytes, [&](int64_t row) {
    Place to = layout.result_at(m.rank(), row);
    to.offset += cols.first * layout.element_bytes;
    return to;
  });
  if constexpr (L::kHasScores) {
    if (tile.col_block == 0) {
      m.load(layout.part_at(m.rank(), tile.row), tile.rows * layout.parts_bytes());
      body.make_scores(tile);
      say_stored(m, tile, sizeof(float), [&](int64_t row) { return layout.score_at(m.rank(), row); });
    }
  }
  deliverers.tell(m);
}

// Of rows that this worker delivers, from `list`: tokens of the rail peer in `node`, or own ones.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD void keep_places(M& m, const L& layout, Place list, int node, int64_t row, int rows, Body& body) {
  list.offset += 2 * kWord;
  const auto pairs = m.read_list(list, rows, sizeof(Route));
  const auto to_at = [&](int i) { return layout.place_at(m.rank(), node, pairs.own(i)); };
  body.keep_places(row, rows, to_at);
  store_each(m, rows, to_at, kWord);
}

// Tiles of both GEMMs.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD bool compute_tiles(M& m, const L& layout, const Post& post, Body& body) {
  int band = -1;
  return for_each_tile(m, layout, post, [&](const LayerTile& tile) {
    const uint64_t due = tile.is_second ? 0 : rows_due(m, layout, tile);
    if (!load_step(m, layout, tile, due, band)) return false;
    m.note(Event{EventKind::kTileBegin, tile.number, m.rank()});
    if (tile.is_second) {
      const Deliverers<M> deliverers(m, layout, tile);
      body.multiply(tile);
      tell_returned(m, layout, tile, deliverers, body);
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

// Tokens, lists and records.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L>
MK_HD bool send_all(M& m, const L& layout, const Post& post) {
  if (!wait_for_lists(m, layout)) return false;
  const int here = m.world().node_of(m.rank());
  const auto send_records = [&](int peer) {
    const int there = m.world().node_of(peer);
    const int all = layout.crossing_word(layout.last_phase(), there);
    const uint64_t rows = m.read(layout.counts_at(m.rank(), m.rank(), m.epoch(), all));
    return m.put(Put{.from = layout.record_at(m.rank(), there, 0),
                     .to = layout.record_in_at(peer, here, 0),
                     .bytes = rows * layout.record_bytes(),
                     .signal = {peer, layout.records_landed(here)},
                     .stamp = here_in(m.epoch())},
                 peer);
  };
  return send_tokens(m, layout, post, send_records);
}

// Then sums of what came back of the tokens that others sent here.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD void return_sums(M& m, const L& layout, const Post& post, Body& body) {
  if (sum_for_peers(m, layout, post, body)) m.settle();
}

MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD MK_INLINE void dispatch(M& m, const L& layout, const Post& post, Body& body) {
  dispatch(m, layout, post, body, [&](const Place& list, int node, int64_t row, int rows) {
    keep_places(m, layout, list, node, row, rows, body);
  });
}

// A worker's launch.
MK_PROTOCOL
template <Machine M, AnyLayerLayout L, class Body>
MK_HD void work(M& m, const L& layout, const Post& post, Body& body) {
  if (post.role == Layout::kCompute) return compute(m, layout, post, body);
  if (post.role == Layout::kDispatch) return dispatch(m, layout, post, body);
  if (send_all(m, layout, post)) return_sums(m, layout, post, body);
}

}  // namespace mk::moe
