// SPDX-License-Identifier: MIT
// ops/moe/moe_dispatch_protocol.h — who waits for what, and tells whom, while tokens travel to their experts.
//
//   role       waits for                                      tells
//   dispatch   histograms, summed, of this rank's workers;    histograms, summed, listed; counted[this rank] at the
//              counted[rank], of all ranks                    node and at the rails (put); counted[rail peer] at the
//                                                             node; planned
//              then planned; listed; list_landed[node] and    arrived[block] at the expert's rank
//              landed[node, chunk] of what crossed
//   send       listed; counted[rail peer]                     list_landed[node], landed[node, chunk] at the rail
//                                                             peer (stamps, by puts)
//   compute    planned; arrived[block] of its tile            nothing: the result is written
//
// A rank delivers rows inside its own node only: its own tokens, and those that its rail peers put here.  A token
// crosses to another node once, whatever it has there.  Tokens cross in the order of their first expert there, so that
// what an expert needs first comes first.
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
#include "core/value_list.h"
#include "core/wait_due.h"
#include "ops/moe/moe_layout.h"

namespace mk::moe {

// All stamps of a launch are this one.
MK_HD constexpr uint64_t here_in(uint64_t epoch) { return stamp_of(epoch, 1); }

// This rank's Counts, to the node and to the rails.
MK_PROTOCOL
template <Machine M>
MK_HD bool publish(M& m, const Layout& layout) {
  const Place own = layout.counts_at(m.rank(), m.rank(), m.epoch());
  for (int step = 1; step < m.world().nodes; ++step) {
    const int peer = rail_peer_at(m.world(), m.rank(), step);
    const Put put{.from = own,
                  .to = layout.counts_at(peer, m.rank(), m.epoch()),
                  .bytes = layout.counts_bytes(),
                  .signal = {peer, layout.counted(m.rank(), m.epoch())},
                  .stamp = here_in(m.epoch())};
    if (!m.put(put, -1)) return false;
  }
  for (int step = 1; step < m.world().ranks; ++step) {
    const int peer = peer_at(m.world(), m.rank(), step);
    m.copy(layout.counts_at(peer, m.rank(), m.epoch()), own, layout.counts_bytes());
    m.stamp(Signal{peer, layout.counted(m.rank(), m.epoch())}, here_in(m.epoch()));
  }
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_counts(M& m, const Layout& layout, int rank) {
  return m.wait_stamp(layout.counted(rank, m.epoch()), here_in(m.epoch()), -1);
}

// What came over the rail, to the peers of the node.
MK_PROTOCOL
template <Machine M>
MK_HD bool pass_on_counts(M& m, const Layout& layout) {
  for (int step = 1; step < m.world().nodes; ++step) {
    const int from = m.world().rank_at(layout.source_node_at(m.rank(), step), m.world().local_of(m.rank()));
    if (!wait_for_counts(m, layout, from)) return false;
    for (int to = 1; to < m.world().ranks; ++to) {
      const int peer = peer_at(m.world(), m.rank(), to);
      m.copy(layout.counts_at(peer, from, m.epoch()), layout.counts_at(m.rank(), from, m.epoch()),
             layout.counts_bytes());
      m.stamp(Signal{peer, layout.counted(from, m.epoch())}, here_in(m.epoch()));
    }
  }
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool make_plan(M& m, const Layout& layout, Body& body) {
  for (int rank = 0; rank < m.world().size(); ++rank) {
    if (rank != m.rank() && !wait_for_counts(m, layout, rank)) return false;
  }
  body.plan(m);
  m.add(Signal{m.rank(), layout.planned()}, 1);
  return true;
}

// Tells that this worker is done with its part, and waits until all dispatch workers of the rank are.
MK_PROTOCOL
template <Machine M>
MK_HD bool join(M& m, const Post& post, uint32_t signal) {
  m.add(Signal{m.rank(), signal}, 1);
  return m.wait(signal, m.epoch() * post.count, -1);
}

// Counting sort of this rank's pairs by expert: workers count slices of tokens, sum experts over the slices, and list
// their slices.  The first worker also tells all ranks the counts and makes the plan.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool route(M& m, const Layout& layout, const Post& post, Body& body) {
  const int slices = layout.num_slices(body.tokens());
  for (int slice = post.index; slice < slices; slice += post.count) body.count(m, slice);
  if (!join(m, post, layout.histograms())) return false;
  for (int expert = post.index; expert < layout.experts; expert += post.count) body.sum(m, expert);
  if (!join(m, post, layout.summed())) return false;
  if (post.index == 0) {
    body.total(m);
    if (!publish(m, layout)) return false;
  }
  const int apart = post.count > 1 ? 1 : 0;  // others list meanwhile, if there are any
  for (int slice = post.index - apart; slice >= 0 && slice < slices; slice += post.count - apart) body.list(m, slice);
  m.add(Signal{m.rank(), layout.listed()}, 1);
  return post.index != 0 || (pass_on_counts(m, layout) && make_plan(m, layout, body));
}

MK_PROTOCOL
template <Machine M>
MK_HD bool wait_for_lists(M& m, const Layout& layout) {
  return m.wait(layout.listed(), m.epoch() * layout.roles.count(Layout::kDispatch), -1);
}

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

MK_PROTOCOL
template <Machine M>
MK_HD bool send_to(M& m, const Layout& layout, const Post& post, int step) {
  const int peer = rail_peer_at(m.world(), m.rank(), step);
  const int there = m.world().node_of(peer);
  const int here = m.world().node_of(m.rank());
  const auto own = [&](int word) { return m.read(layout.counts_at(m.rank(), m.rank(), m.epoch(), word)); };
  if (!wait_for_counts(m, layout, peer)) return false;
  const uint32_t first_pair = own(layout.first_pair_word(there));
  const uint32_t pairs = own(layout.first_pair_word(there + 1)) - first_pair;
  if (pairs == 0) return true;
  if (step % post.count == post.index && !m.put(Put{.from = layout.list_at(m.rank(), first_pair),
                                                    .to = layout.list_in_at(peer, here, 0),
                                                    .bytes = pairs * sizeof(Route),
                                                    .signal = {peer, layout.list_landed(here)},
                                                    .stamp = here_in(m.epoch())},
                                                peer)) {
    return false;
  }
  const int64_t rows = own(layout.crossing_word(there));
  for (int chunk = post.index; int64_t{chunk} * layout.chunk_rows < rows; chunk += post.count) {
    const Range range = block_range(rows, layout.chunk_rows, chunk);
    if (!send_chunk(m, layout, peer, chunk, range.first, range.count)) return false;
  }
  return true;
}

MK_PROTOCOL
template <Machine M>
MK_HD void send(M& m, const Layout& layout, const Post& post) {
  if (!wait_for_lists(m, layout)) return;
  for (int step = 1; step < m.world().nodes; ++step) {
    if (!send_to(m, layout, post, step)) return;
  }
  m.settle();
}

// Bundle `number` of a visit: a part of the rows that tokens of one source bring to one expert.
MK_PROTOCOL
template <Machine M>
MK_HD bool deliver_bundle(M& m, const Layout& layout, int step, int visit, int number) {
  const int in_node = layout.expert_at_visit(m.rank(), visit);
  const int node = layout.source_node_at(m.rank(), step);
  const int to = m.world().rank_at(m.world().node_of(m.rank()), in_node / layout.local_experts());
  const auto source = m.read_list(layout.plan_at(m.rank(), layout.source_word(step, visit)), 3, kWord);
  const auto expert = m.read_list(layout.plan_at(m.rank(), layout.expert_word(in_node)), 3, kWord);
  const int64_t first_listed = source[0];
  const int64_t offset = source[1];
  const int64_t end = offset + source[2];
  const int64_t height = layout.bundle_rows;
  const int64_t grid = (offset / height + number) * height;
  const int64_t first = grid < offset ? offset : grid;
  const int rows = static_cast<int>(min_of(end, grid + height) - first);
  const int64_t row = expert[0] + first;
  const uint32_t block = expert[2] + static_cast<uint32_t>(first / layout.tile_m);

  const int64_t listed = first_listed + first - offset;
  const Place list = step == 0 ? layout.list_at(m.rank(), listed) : layout.list_in_at(m.rank(), node, listed);
  if (step > 0 && !m.wait_stamp(layout.list_landed(node), here_in(m.epoch()), row)) return false;
  const auto from = m.read_list(list, rows, sizeof(Route));  // their first words
  for (int i = 0, chunk = -1; step > 0 && i < rows; ++i) {
    if (static_cast<int>(from[i]) / layout.chunk_rows == chunk) continue;
    chunk = static_cast<int>(from[i]) / layout.chunk_rows;
    if (!m.wait_stamp(layout.landed(node, chunk), here_in(m.epoch()), row)) return false;
  }
  for (int part = 0; part < layout.parts; ++part) {
    copy_rows(m, layout.row_at(to, row, part), rows, layout.row_bytes(), [&](int i) {
      return step == 0 ? layout.token_at(m.rank(), from[i], part) : layout.incoming_at(m.rank(), node, from[i], part);
    });
  }
  m.copy(layout.origin_at(to, row), list, rows * sizeof(Route));
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
    const int64_t rows = sent(layout.crossing_word(here));
    for (int chunk = post.index; int64_t{chunk} * layout.chunk_rows < rows; chunk += post.count) {
      if (!m.wait_stamp(layout.landed(node, chunk), here_in(m.epoch()), chunk)) return false;
    }
  }
  return true;
}

// Bundles are numbered through all visits, and workers take them in turn.
MK_PROTOCOL
template <Machine M>
MK_HD bool deliver(M& m, const Layout& layout, const Post& post) {
  if (!m.wait(layout.planned(), m.epoch(), -1) || !wait_for_lists(m, layout)) return false;
  if (m.read(layout.plan_at(m.rank(), layout.status_word())) != 0) return wait_for_landings(m, layout, post);
  int64_t next = post.index;  // bundle of this worker
  int64_t before = 0;
  for (int step = 0; step < m.world().nodes; ++step) {
    for (int first = 0; first < layout.node_experts(); first += kMostValues) {
      const int some = min_of(kMostValues, layout.node_experts() - first);
      const auto bundles = m.read_list(layout.plan_at(m.rank(), layout.bundles_word(step, first)), some, kWord);
      for (int i = 0; i < some; ++i) {
        const int64_t end = before + bundles[i];
        for (; next < end; next += post.count) {
          if (!deliver_bundle(m, layout, step, first + i, static_cast<int>(next - before))) return false;
        }
        before = end;
      }
    }
  }
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void dispatch(M& m, const Layout& layout, const Post& post, Body& body) {
  if (!route(m, layout, post, body) || !deliver(m, layout, post)) return;
  if (m.world().nodes > 1) m.settle();
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
  int64_t after = 0;  // tiles of the same worker that follow
};

// Calls visit(expert, its first row, its rows, its first block) for experts [begin, end) of the rank, in order, until
// it returns false.
MK_PROTOCOL
template <Machine M, class Visit>
MK_HD bool for_each_expert(M& m, const Layout& layout, int begin, int end, Visit&& visit) {
  const int own = m.world().local_of(m.rank()) * layout.local_experts();
  const auto column = [&](int first, int some, int word) {
    return m.read_list(layout.plan_at(m.rank(), layout.expert_word(own + first) + word), some, 4 * kWord);
  };
  for (int first = begin; first < end; first += kMostValues) {
    const int some = min_of(kMostValues, end - first);
    const auto first_rows = column(first, some, 0);
    const auto rows = column(first, some, 1);
    const auto first_blocks = column(first, some, 2);
    for (int i = 0; i < some; ++i) {
      if (!visit(first + i, int64_t{first_rows[i]}, int64_t{rows[i]}, static_cast<int>(first_blocks[i]))) return false;
    }
  }
  return true;
}

// Calls body(tile) for the tiles of one worker, in order, until body returns false.  False also if the launch was
// refused.  Experts without rows have no tiles.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD bool for_each_tile(M& m, const Layout& layout, const Post& post, Body&& body) {
  if (!m.wait(layout.planned(), m.epoch(), -1)) return false;
  const auto status = m.read_list(layout.plan_at(m.rank(), layout.status_word()), 2, kWord);
  if (status[0] != 0) return false;
  const int64_t all = int64_t{status[1]} * layout.col_blocks();
  int64_t next = post.index;  // tile of this worker
  const int experts = layout.local_experts();
  return for_each_expert(m, layout, 0, experts, [&](int expert, int64_t first_row, int64_t rows, int first_block) {
    const int64_t before = int64_t{first_block} * layout.col_blocks();
    const int blocks = static_cast<int>(ceil_div<int64_t>(rows, layout.tile_m));
    for (; next < before + int64_t{blocks} * layout.col_blocks(); next += post.count) {
      const GridPos at = banded(static_cast<int>(next - before), blocks, layout.col_blocks(), kBandBlocks);
      const Range range = block_range(rows, layout.tile_m, at.row);
      const ExpertTile tile{next,
                            expert,
                            first_block + at.row,
                            first_row + range.first,
                            static_cast<int>(range.count),
                            at.col,
                            tiles_after(next, post, all)};
      if (!body(tile)) return false;
    }
    return true;
  });
}

// The load job's part: the tile's rows are here.
MK_PROTOCOL
template <Machine M>
MK_HD bool load_step(M& m, const Layout& layout, const ExpertTile& tile) {
  const Place due = layout.plan_at(m.rank(), layout.due_word(tile.block));
  if (!wait_due(m, {layout.arrived(tile.block), due}, tile.number)) return false;
  m.load(layout.row_at(m.rank(), tile.row), tile.rows * layout.row_bytes());
  return true;
}

MK_PROTOCOL
template <Machine M, class Body>
MK_HD void compute(M& m, const Layout& layout, const Post& post, Body& body) {
  for_each_tile(m, layout, post, [&](const ExpertTile& tile) {
    if (!load_step(m, layout, tile)) return false;
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

// The roles besides compute.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void communicate(M& m, const Layout& layout, const Post& post, Body& body) {
  if (post.role == Layout::kSend) return send(m, layout, post);
  dispatch(m, layout, post, body);
}

// A worker's launch.
MK_PROTOCOL
template <Machine M, class Body>
MK_HD void work(M& m, const Layout& layout, const Post& post, Body& body) {
  if (post.role == Layout::kCompute) {
    compute(m, layout, post, body);
  } else {
    communicate(m, layout, post, body);
  }
}

}  // namespace mk::moe
