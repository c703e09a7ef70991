// SPDX-License-Identifier: MIT
// ops/moe/moe_plan.cc — see moe_plan.h.
#include "ops/moe/moe_plan.h"

#include "base/math.h"

namespace mk::moe {
namespace {

using Counts = std::span<const uint32_t* const>;

uint64_t rows_for(const Counts& counts, int expert) {
  uint64_t rows = 0;
  for (const uint32_t* of : counts) rows += of[expert];
  return rows;
}

Refusal refusal_of(const Layout& layout, const Counts& counts) {
  const uint64_t most = layout.max_rows;
  for (int rank = 0; rank < layout.world.size(); ++rank) {
    Refusal refusal;
    for (int i = 0; i < layout.local_experts(); ++i) {
      const int expert = rank * layout.local_experts() + i;
      refusal.rows += rows_for(counts, expert);
      if (refusal.expert < 0 && refusal.rows > most) refusal.expert = expert;
    }
    if (refusal.expert >= 0) return refusal;
  }
  return {};
}

void write_experts(const Layout& layout, int node, const Counts& counts, uint32_t* plan) {
  uint32_t row = 0;
  uint32_t block = 0;
  for (int i = 0; i < layout.node_experts(); ++i) {
    if (i % layout.local_experts() == 0) row = block = 0;  // the next rank
    const auto rows = static_cast<uint32_t>(rows_for(counts, layout.first_expert_of_node(node) + i));
    uint32_t* const words = plan + layout.expert_word(i);
    words[0] = row;
    words[1] = rows;
    words[2] = block;
    words[3] = 0;
    row += rows;
    block += ceil_div<uint32_t>(rows, layout.tile_m);
  }
}

// What the tokens of one rank bring to the node's experts.
void write_source(const Layout& layout, int rank, int step, const Counts& counts, uint32_t* plan) {
  const int node = layout.world.node_of(rank);
  const int source = layout.world.rank_at(layout.source_node_at(rank, step), layout.world.local_of(rank));
  const uint32_t height = layout.bundle_rows;
  uint32_t listed = step == 0 ? counts[source][layout.first_pair_word(node)] : 0;  // lists of others begin with ours
  for (int i = 0; i < layout.node_experts(); ++i) {
    const int expert = layout.first_expert_of_node(node) + i;
    const int visit = layout.visit_of_expert(rank, i);
    uint32_t offset = 0;
    for (int before = 0; before < source; ++before) offset += counts[before][expert];
    const uint32_t rows = counts[source][expert];
    uint32_t* const words = plan + layout.source_word(step, visit);
    words[0] = listed;
    words[1] = offset;
    words[2] = rows;
    words[3] = 0;
    plan[layout.bundles_word(step, visit)] = rows == 0 ? 0 : ceil_div(offset + rows, height) - offset / height;
    listed += rows;
  }
}

void add_due(const Layout& layout, int rank, uint32_t* plan) {
  const int own = layout.world.local_of(rank) * layout.local_experts();
  plan[layout.blocks_word()] = 0;
  for (int i = 0; i < layout.local_experts(); ++i) {
    const uint32_t* const expert = plan + layout.expert_word(own + i);
    for (int64_t block = 0; block * layout.tile_m < expert[1]; ++block) {
      ++plan[layout.blocks_word()];
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
  write_experts(layout, layout.world.node_of(rank), counts, plan);
  for (int step = 0; step < layout.world.nodes; ++step) write_source(layout, rank, step, counts, plan);
  add_due(layout, rank, plan);
  return {};
}

}  // namespace mk::moe
