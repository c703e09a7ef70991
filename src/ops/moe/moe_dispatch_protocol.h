// SPDX-License-Identifier: MIT
// ops/moe/moe_dispatch_protocol.h — who waits for what, and tells whom, while tokens travel to their experts.
//
//   role       waits for                                      tells
//   dispatch   histograms, summed, of this rank's workers;    histograms, summed, listed; counted[this rank] here, at
//              counted[rank], of all ranks                    the node and at the rails (put); counted[rail peer] at
//                                                             the node; planned
//              then planned; listed; list_landed[node] and    arrived[block] at the expert's rank
//              landed[node, chunk] of what crossed
//   send       listed; counted[rail peer]                     list_landed[node], landed[node, chunk] at the rail
//                                                             peer (stamps, by puts)
//   compute    planned; arrived[block] of its tile            nothing: the result is written
//
// A rank delivers rows inside its own node only: its own tokens, and those that its rail peers put here.  A token
// crosses to another node once, whatever it has there.  Tokens cross in their order, a phase to all nodes before the
// next, and tiles are computed in the order in which phases arrive: no expert waits for the last token.
//
// arrived counts rows over all launches.  How many a launch brings differs, so the plan keeps what is due in memory.
//
// Hand-back: a rank whose counts of a launch are here has begun it, so has finished the one before.  Rows are written
// by ranks that have the counts of all; what crosses goes to a rail peer whose counts are here.  Counts themselves are
// written before that, into one of two places in turns: whoever begins launch e+2 has all counts of e+1, so nobody
// reads those of e any more.  Their signals take turns as well: a put that has completed may not have landed, so counts
// of e+1 may land before those of e.  For the same reason a rank leaves no launch before all that was sent to it has
// landed, even if the launch is refused.  What puts read is settled.
#pragma once

#include "base/macros.h"
#include "core/copy_rows.h"
#include "core/machine.h"
#include "core/schedule.h"
#include "core/stamp.h"
#include "core/turns.h"
#include "core/value_list.h"
#include "core/wait_due.h"
#include "ops/moe/moe_layout.h"
#include "ops/moe/moe_route_protocol.h"

namespace mk::moe {

// Rows [first, first + count) of what crosses to the peer's node.
MK_PROTOCOL
template <Machine M>
MK_HD bool send_chunk(M& m, const Layout& layout, int peer, int chunk, int64_t first, int64_t count) {
  const int there = m.world().node_of(peer);
  const int here = m.world().node_of(m.rank());
  const int parts = layout.parts;
  for (int64_t row = 0; row < count; row += kMostValues / parts) {
    const int some = static_cast<int>(min_of<int64_t>(kMostValues / parts, count - row));
    const auto tokens = m.read_list(layout.crossing_at(m.rank(), there, first + row), some, kWord);
    copy_rows(m, layout.outgoing_at(m.rank(), there, first + row), some * parts, layout.row_bytes(),
              [&](int i) { return layout.token_at(m.rank(), tokens[i / parts], i % parts); });
  }
  return m.put(Put{.from = layout.outgoing_at(m.rank(), there, first),
                   .to = layout.incoming_at(peer, here, first),
                   .bytes = static_cast<uint64_t>(count) * layout.token_bytes(),
                   .signal = {peer, layout.landed(here, chunk)},
                   .stamp = here_in(m.epoch())},
               chunk);
}

// Chunks of what crosses from rank `of` to `node`: those that are complete with this phase.
MK_PROTOCOL
template <Machine M>
MK_HD Range chunks_of_phase(M& m, const Layout& layout, int of, int node, int phase) {
  const auto rows_until = [&](int until) {
    const int word = layout.crossing_word(until, node);
    return static_cast<int>(m.read(layout.counts_at(m.rank(), of, m.epoch(), word)));
  };
  const int first = phase == 0 ? 0 : layout.by.chunk_rows.quotient(rows_until(phase - 1));
  const int more = phase == layout.last_phase() ? layout.chunk_rows - 1 : 0;  // the last one may be smaller
  return {first, layout.by.chunk_rows.quotient(rows_until(phase) + more) - first};
}

// Calls body(chunk) for those chunks that are this worker's, until it returns false.
MK_PROTOCOL
template <class Body>
MK_HD bool for_each_own(const Range& chunks, const Post& post, Body&& body) {
  const int first = static_cast<int>(chunks.first);
  for (int chunk = first + wrap(post.index - first, post.count); chunk < first + chunks.count; chunk += post.count) {
    if (!body(chunk)) return false;
  }
  return true;
}

// All that crosses; also(peer) is called once for each peer that gets tokens, before the first of them.
MK_PROTOCOL
template <Machine M, class Also>
MK_HD bool send_tokens(M& m, const Layout& layout, const Post& post, const Also& also) {
  const int here = m.world().node_of(m.rank());
  const auto own = [&](int word) { return m.read(layout.counts_at(m.rank(), m.rank(), m.epoch(), word)); };
  for (int step = 1; step < m.world().nodes; ++step) {
    const int peer = rail_peer_at(m.world(), m.rank(), step);
    const int there = m.world().node_of(peer);
    if (!wait_for_counts(m, layout, peer)) return false;
    const uint32_t first_pair = own(layout.first_pair_word(there));
    const uint32_t pairs = own(layout.first_pair_word(there + 1)) - first_pair;
    if (pairs == 0 || step % post.count != post.index) continue;
    const Put list{.from = layout.list_at(m.rank(), first_pair),
                   .to = layout.list_in_at(peer, here, 0),
                   .bytes = pairs * sizeof(Route),
                   .signal = {peer, layout.list_landed(here)},
                   .stamp = here_in(m.epoch())};
    if (!m.put(list, peer) || !also(peer)) return false;
  }
  for (int phase = 0; phase < layout.num_phases(); ++phase) {
    for (int step = 1; step < m.world().nodes; ++step) {
      const int peer = rail_peer_at(m.world(), m.rank(), step);
      const int there = m.world().node_of(peer);
      const Range chunks = chunks_of_phase(m, layout, m.rank(), there, phase);
      const int64_t rows = own(layout.crossing_word(layout.last_phase(), there));
      const bool is_sent = for_each_own(chunks, post, [&](int chunk) {
        const Range range = block_range(rows, layout.chunk_rows, chunk);
        return send_chunk(m, layout, peer, chunk, range.first, range.count);
      });
      if (!is_sent) return false;
    }
  }
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD void send(M& m, const Layout& layout, const Post& post) {
  if (!wait_for_lists(m, layout)) return;
  if (send_tokens(m, layout, post, [](int) { return true; })) m.settle();
}

// Bundle `number` of a visit: a part of the rows that tokens of one batch bring to one expert.
MK_PROTOCOL
template <Machine M, class Also>
MK_HD bool deliver_bundle(M& m, const Layout& layout, int batch, int visit, int number, const Also& also) {
  const int step = layout.step_of_batch(batch);
  const int in_node = layout.expert_at_visit(m.rank(), visit);
  const int node = layout.source_node_at(m.rank(), step);
  const int to = m.world().rank_at(m.world().node_of(m.rank()), in_node / layout.local_experts());
  const auto source = m.read_list(layout.plan_at(m.rank(), layout.source_word(batch, visit)), 3, kWord);
  const auto expert = m.read_list(layout.plan_at(m.rank(), layout.expert_word(in_node)), 3, kWord);
  const uint32_t offset = source[1];
  const uint32_t end = offset + source[2];
  const auto height = static_cast<uint32_t>(layout.bundle_rows);
  const uint32_t grid = (offset / height + number) * height;
  const uint32_t first = max_of(grid, offset);
  const int rows = static_cast<int>(min_of(end, grid + height) - first);
  const int64_t row = int64_t{expert[0]} + first;
  const uint32_t block = expert[2] + layout.blocks_until(first);

  const int64_t listed = int64_t{source[0]} + first - offset;
  const Place list = step == 0 ? layout.list_at(m.rank(), listed) : layout.list_in_at(m.rank(), node, listed);
  if (step > 0 && !m.wait_stamp(layout.list_landed(node), here_in(m.epoch()), row)) return false;
  const auto from = m.read_list(list, rows, sizeof(Route));  // their first words
  for (int i = 0, chunk = -1; step > 0 && i < rows; ++i) {
    const int next = layout.by.chunk_rows.quotient(static_cast<int>(from[i]));
    if (next == chunk) continue;
    chunk = next;
    if (!m.wait_stamp(layout.landed(node, chunk), here_in(m.epoch()), row)) return false;
  }
  for (int part = 0; part < layout.parts; ++part) {
    copy_rows(m, layout.row_at(to, row, part), rows, layout.row_bytes(), [&](int i) {
      return step == 0 ? layout.token_at(m.rank(), from[i], part) : layout.incoming_at(m.rank(), node, from[i], part);
    });
  }
  static_assert(kMostValues * sizeof(Route) <= kMostFewBytes);
  copy_few(m, layout.origin_at(to, row), list, rows * sizeof(Route));
  also(list, node, row, rows);
  m.add(Signal{to, layout.arrived(static_cast<int>(block))}, rows);
  return true;
}

// What other nodes sent to this rank in a launch that is refused: it must not land in the next one.
MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_landings(M& m, const Layout& layout, const Post& post) {
  const int here = m.world().node_of(m.rank());
  for (int step = 1; step < m.world().nodes; ++step) {
    const int node = layout.source_node_at(m.rank(), step);
    const int source = m.world().rank_at(node, m.world().local_of(m.rank()));
    const auto sent = [&](int word) { return m.read(layout.counts_at(m.rank(), source, m.epoch(), word)); };
    if (sent(layout.first_pair_word(here + 1)) == sent(layout.first_pair_word(here))) continue;
    if (!m.wait_stamp(layout.list_landed(node), here_in(m.epoch()), -1)) return false;
    const int64_t rows = sent(layout.crossing_word(layout.last_phase(), here));
    for (int chunk = post.index; int64_t{chunk} * layout.chunk_rows < rows; chunk += post.count) {
      if (!m.wait_stamp(layout.landed(node, chunk), here_in(m.epoch()), chunk)) return false;
    }
  }
  return true;
}

// Bundles of a batch: those for blocks that are late (moe_layout.h), or the others.
enum class Bundles { kAll, kEarly, kLate };

// Calls deliver(batch, visit, bundle) for bundles in their order, those of one worker, until it returns false.  Bundles
// are numbered through all visits, and workers take them in turn.
MK_PROTOCOL
template <Machine M, class Deliver>
MK_HD bool for_each_bundle(M& m, const Layout& layout, const Post& post, const Deliver& deliver) {
  int64_t next = post.index;  // bundle of this worker
  int64_t before = 0;
  const auto visit_all = [&](int batch, Bundles which) {
    for (int first = 0; first < layout.node_experts(); first += kMostValues) {
      const int some = min_of(kMostValues, layout.node_experts() - first);
      const auto words = [&](uint64_t word, uint64_t stride) {
        return m.read_list(layout.plan_at(m.rank(), word), some, stride * kWord);
      };
      const auto bundles = words(layout.bundles_word(batch, first), 1);
      const auto offsets = words(layout.source_word(batch, first) + 1, 4);
      const auto own_blocks = words(layout.source_word(batch, first) + 3, 4);
      for (int i = 0; i < some; ++i) {
        const int64_t end = before + bundles[i];
        for (; next < end; next += post.count) {
          const int number = static_cast<int>(next - before);
          const uint32_t grid = offsets[i] / layout.bundle_rows + number;
          const bool is_late = layout.is_late(layout.blocks_until(grid * layout.bundle_rows), own_blocks[i]);
          if (which != Bundles::kAll && is_late != (which == Bundles::kLate)) continue;
          if (!deliver(batch, first + i, number)) return false;
        }
        before = end;
      }
    }
    return true;
  };
  const bool is_split = layout.is_split();
  if (!visit_all(0, is_split ? Bundles::kEarly : Bundles::kAll)) return false;
  for (int batch = 1; batch < layout.num_batches(); ++batch) {
    if (!visit_all(batch, Bundles::kAll)) return false;
    if (is_split && batch == layout.num_batches() / 2 && !visit_all(0, Bundles::kLate)) return false;
  }
  return true;
}

// also(list, node, row, rows) is called for each bundle, before its rows are told of.
MK_PROTOCOL
template <Machine M, class Also>
MK_HD bool deliver(M& m, const Layout& layout, const Post& post, const Also& also) {
  if (!wait_for_plan(m, layout) || !wait_for_lists(m, layout)) return false;
  if (m.read(layout.plan_at(m.rank(), layout.status_word())) != 0) return wait_for_landings(m, layout, post);
  return for_each_bundle(m, layout, post, [&](int batch, int visit, int number) {
    return deliver_bundle(m, layout, batch, visit, number, also);
  });
}

MK_PROTOCOL
template <Machine M, class Body, class Also>
MK_HD MK_INLINE void dispatch(M& m, const Layout& layout, const Post& post, Body& body, const Also& also) {
  if (!route(m, layout, post, body) || !deliver(m, layout, post, also)) return;
  if (m.world().nodes > 1) m.settle();
}
MK_PROTOCOL
template <Machine M, class Body>
MK_HD MK_INLINE void dispatch(M& m, const Layout& layout, const Post& post, Body& body) {
  dispatch(m, layout, post, body, [](const Place&, int, int64_t, int) {});
}

// Neighbours in the walk over an expert's tiles are below each other, in bands of so many: they share its weights,
// which most of the bytes are.
constexpr int kBandBlocks = 8;

// A tile of the result: rows of one expert.
struct ExpertTile {
  int64_t number = 0;  // in the order of visit of its rank
  int expert = 0;      // of the rank
  int block = 0;       // of the rank
  int64_t row = 0;
  int rows = 0;
  int col_block = 0;
};

// Blocks of an expert that are visited one after the other.  first_block is the expert's first, as the rank numbers
// them.
struct Segment {
  int number = 0;
  int expert = 0;  // of the rank
  int64_t first_row = 0;
  int64_t rows = 0;  // of the expert
  int first_block = 0;
  BlockRuns blocks;
};

// Calls visit(segment) for segments [begin, end) of the rank, in order, until it returns false.  A segment's number is
// pass · local_experts + expert.  It may have no blocks.
MK_PROTOCOL
template <Machine M, class Visit>
MK_HD bool for_each_segment(M& m, const Layout& layout, int begin, int end, Visit&& visit) {
  const int own = m.world().local_of(m.rank()) * layout.local_experts();
  while (begin < end) {
    const int pass = begin / layout.local_experts();
    const int expert = begin - pass * layout.local_experts();
    const int some = min_of(kMostValues, min_of(layout.local_experts() - expert, end - begin));
    const auto column = [&](int word) {
      return m.read_list(layout.plan_at(m.rank(), layout.expert_word(own + expert) + word), some, 4 * kWord);
    };
    // Passes without a phase of their own read one all the same, and make nothing of it.
    const auto ends_of = [&](int phase) {
      const int known = min_of(max_of(phase, 0), layout.last_phase());
      return m.read_list(layout.plan_at(m.rank(), layout.end_word(known, expert)), some, kWord);
    };
    const auto first_rows = column(0);
    const auto rows = column(1);
    const auto first_blocks = column(2);
    const auto own_rows = column(3);
    const auto ends_before = ends_of(layout.phase_of_pass(pass) - 1);
    const auto ends = ends_of(layout.phase_of_pass(pass));
    for (int i = 0; i < some; ++i) {
      const Segment segment{begin + i,
                            expert + i,
                            int64_t{first_rows[i]},
                            int64_t{rows[i]},
                            static_cast<int>(first_blocks[i]),
                            layout.blocks_of_pass(pass, rows[i], own_rows[i], ends_before[i], ends[i])};
      if (!visit(segment)) return false;
    }
    begin += some;
  }
  return true;
}

// Tile `number` of a walk, the one at `at` of the segment.
MK_HD constexpr ExpertTile tile_of(const Layout& layout, const Segment& of, const GridPos& at, int64_t number) {
  const int block = of.blocks.at(at.row);
  const Range range = block_range(of.rows, layout.tile_m, block);
  return {number, of.expert, of.first_block + block, of.first_row + range.first, static_cast<int>(range.count), at.col};
}

// Calls body(tile) for the tiles of one worker, in order, until body returns false.  False also if the launch was
// refused.  Experts without rows have no tiles.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool for_each_tile(M& m, const Layout& layout, const Post& post, Body&& body) {
  if (!wait_for_plan(m, layout)) return false;
  if (m.read(layout.plan_at(m.rank(), layout.status_word())) != 0) return false;
  int64_t next = first_turn(m, post);
  int64_t before = 0;  // tiles of the segments before
  return for_each_segment(m, layout, 0, layout.num_segments(), [&](const Segment& segment) {
    const int blocks = segment.blocks.count;
    const int64_t end = before + int64_t{blocks} * layout.col_blocks();
    for (; next < end; next = next_turn(m, post, next)) {
      const GridPos at = banded(static_cast<int>(next - before), blocks, layout.col_blocks(), kBandBlocks);
      if (!body(tile_of(layout, segment, at, next))) return false;
    }
    before = end;
    return true;
  });
}

// Rows that were ever due in the tile's block.
MK_PROTOCOL
template <Machine M>
MK_HD uint64_t rows_due(M& m, const Layout& layout, const ExpertTile& tile) {
  return read_due(m, {layout.arrived(tile.block), layout.plan_at(m.rank(), layout.due_word(tile.block))});
}

// The load job's part: the tile's rows are here.  It may ask for `due` before it has the time to wait.
MK_PROTOCOL
template <Machine M>
MK_HD bool load_step(M& m, const Layout& layout, const ExpertTile& tile, uint64_t due) {
  if (!m.wait(layout.arrived(tile.block), due, tile.number)) return false;
  m.load(layout.row_at(m.rank(), tile.row), tile.rows * layout.row_bytes());
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void compute(M& m, const Layout& layout, const Post& post, Body& body) {
  for_each_tile(m, layout, post, [&](const ExpertTile& tile) {
    if (!load_step(m, layout, tile, rows_due(m, layout, tile))) return false;
    m.note(Event{EventKind::kTileBegin, tile.number, m.rank()});
    body.multiply(tile);
    if (tile.col_block == 0) {
      m.load(layout.origin_at(m.rank(), tile.row), tile.rows * sizeof(Route));
      body.take_origins(tile);
    }
    m.note(Event{EventKind::kTileEnd, tile.number, m.rank()});
    return true;
  });
}

// A worker's launch.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void work(M& m, const Layout& layout, const Post& post, Body& body) {
  if (post.role == Layout::kCompute) return compute(m, layout, post, body);
  if (post.role == Layout::kSend) return send(m, layout, post);
  dispatch(m, layout, post, body);
}

}  // namespace mk::moe
