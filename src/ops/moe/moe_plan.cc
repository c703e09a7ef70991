// SPDX-License-Identifier: MIT
// ops/moe/moe_plan.cc — see moe_plan.h.
#include "ops/moe/moe_plan.h"

#include "base/math.h"

namespace mk::moe {
namespace {

using Counts = std::span<const uint32_t* const>;

// Of a rank, for an expert: pairs of all phases, and of one.
uint32_t pairs_of(const Layout& layout, const uint32_t* counts, int expert) {
  return counts[layout.pairs_word(layout.last_phase(), expert)];
}
uint32_t pairs_of(const Layout& layout, const uint32_t* counts, int expert, int phase) {
  const uint32_t before = phase == 0 ? 0 : counts[layout.pairs_word(phase - 1, expert)];
  return counts[layout.pairs_word(phase, expert)] - before;
}

uint64_t rows_for(const Layout& layout, const Counts& counts, int expert) {
  uint64_t rows = 0;
  for (const uint32_t* of : counts) rows += pairs_of(layout, of, expert);
  return rows;
}

// Of tokens of the node.
uint32_t own_rows(const Layout& layout, int node, const Counts& counts, int expert) {
  uint32_t own = 0;
  for (int local = 0; local < layout.world.ranks; ++local) {
    own += pairs_of(layout, counts[layout.world.rank_at(node, local)], expert);
  }
  return own;
}

// Rows of an expert of the node that lie before those that `source` brings in this phase.
uint32_t rows_before(const Layout& layout, int node, const Counts& counts, int expert, int source, int phase) {
  uint32_t rows = 0;
  for (int rank = 0; rank < layout.world.size(); ++rank) {
    const int until = layout.phase_before(node, rank, source, phase);
    if (until >= 0) rows += counts[rank][layout.pairs_word(until, expert)];
  }
  return rows;
}

Refusal refusal_of(const Layout& layout, const Counts& counts) {
  const uint64_t most = layout.max_rows;
  for (int rank = 0; rank < layout.world.size(); ++rank) {
    Refusal refusal;
    for (int i = 0; i < layout.local_experts(); ++i) {
      const int expert = rank * layout.local_experts() + i;
      refusal.rows += rows_for(layout, counts, expert);
      if (refusal.expert < 0 && refusal.rows > most) refusal.expert = expert;
    }
    if (refusal.expert >= 0) return refusal;
  }
  return {};
}

void write_experts(const Layout& layout, int rank, const Counts& counts, uint32_t* plan) {
  const WorldShape& world = layout.world;
  const int node = world.node_of(rank);
  uint32_t row = 0;
  uint32_t block = 0;
  for (int i = 0; i < layout.node_experts(); ++i) {
    const int expert = layout.first_expert_of_node(node) + i;
    const int local = i % layout.local_experts();
    if (local == 0) row = block = 0;  // the next rank
    const auto rows = static_cast<uint32_t>(rows_for(layout, counts, expert));
    const uint32_t own = own_rows(layout, node, counts, expert);
    uint32_t* const words = plan + layout.expert_word(i);
    words[0] = row;
    words[1] = rows;
    words[2] = block;
    words[3] = own;
    row += rows;
    block += ceil_div<uint32_t>(rows, layout.tile_m);
    if (layout.rank_of_expert(expert) != rank) continue;
    for (int phase = 0; phase < layout.num_phases(); ++phase) {
      uint32_t end = own;
      for (int other = 0; other < world.size(); ++other) {
        if (world.node_of(other) != node) end += counts[other][layout.pairs_word(phase, expert)];
      }
      plan[layout.end_word(phase, local)] = end;
    }
  }
}

void add_due(const Layout& layout, int rank, uint32_t* plan) {
  const int own = layout.world.local_of(rank) * layout.local_experts();
  for (int i = 0; i < layout.local_experts(); ++i) {
    const uint32_t* const expert = plan + layout.expert_word(own + i);
    for (int64_t block = 0; block * layout.tile_m < expert[1]; ++block) {
      uint32_t* const words = plan + layout.due_word(static_cast<int>(expert[2] + block));
      const uint64_t due = (uint64_t{words[1]} << 32 | words[0]) + block_range(expert[1], layout.tile_m, block).count;
      words[0] = static_cast<uint32_t>(due);
      words[1] = static_cast<uint32_t>(due >> 32);
    }
  }
}

}  // namespace

Refusal write_plan(const Layout& layout, int rank, Counts counts, uint32_t* plan) {
  const Refusal refusal = refusal_of(layout, counts);
  plan[layout.status_word()] = refusal.expert >= 0;
  if (refusal.expert >= 0) return refusal;
  write_experts(layout, rank, counts, plan);
  add_due(layout, rank, plan);
  return {};
}

void write_batch(const Layout& layout, int rank, int batch, Counts counts, uint32_t* plan) {
  const int node = layout.world.node_of(rank);
  const int step = layout.step_of_batch(batch);
  const int phase = layout.phase_of_batch(batch);
  const int source = layout.world.rank_at(layout.source_node_at(rank, step), layout.world.local_of(rank));
  const uint32_t* const own = counts[source];
  const uint32_t height = layout.bundle_rows;
  uint32_t listed = step == 0 ? own[layout.first_pair_word(node)] : 0;  // lists of others begin with ours
  for (int i = 0; i < layout.node_experts(); ++i) {
    const int expert = layout.first_expert_of_node(node) + i;
    const int visit = layout.visit_of_expert(rank, i);
    const uint32_t rows = step == 0 ? pairs_of(layout, own, expert) : pairs_of(layout, own, expert, phase);
    const uint32_t before_phase = step == 0 || phase == 0 ? 0 : own[layout.pairs_word(phase - 1, expert)];
    const uint32_t offset = rows_before(layout, node, counts, expert, source, phase);
    uint32_t* const words = plan + layout.source_word(batch, visit);
    words[0] = listed + before_phase;
    words[1] = offset;
    words[2] = rows;
    uint32_t& bundles = plan[layout.bundles_word(batch, visit)];
    bundles = rows == 0 ? 0 : ceil_div(offset + rows, height) - offset / height;
    const auto all = static_cast<uint32_t>(rows_for(layout, counts, expert));
    words[3] = static_cast<uint32_t>(layout.own_blocks_of(all, own_rows(layout, node, counts, expert)));
    listed += pairs_of(layout, own, expert);
  }
}

}  // namespace mk::moe
