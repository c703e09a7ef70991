// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_layout.cc — see moe_layer_layout.h.
#include "ops/moe/moe_layer_layout.h"

#include <fmt/format.h>

namespace mk::moe {

void add_due_back(const LayerLayout& layout, int rank, const std::function<const uint32_t*(int)>& counts_of,
                  uint32_t* due) {
  const WorldShape& world = layout.world;
  const int first = layout.first_expert_of_node(world.node_of(rank));
  for (int batch = 0; batch < layout.num_batches(); ++batch) {
    const int step = layout.step_of_batch(batch);
    const uint32_t* const counts = counts_of(world.rank_at(layout.source_node_at(rank, step), world.local_of(rank)));
    const int phase = step == 0 ? layout.last_phase() : layout.phase_of_batch(batch);
    uint32_t rows = 0;
    for (int expert = first; expert < first + layout.node_experts(); ++expert) {
      rows += counts[layout.pairs_word(phase, expert)];
      if (step > 0 && phase > 0) rows -= counts[layout.pairs_word(phase - 1, expert)];
    }
    uint32_t* const words = due + LayerLayout::kDueBackWords * batch;
    const uint64_t ever = (uint64_t{words[1]} << 32 | words[0]) + rows;
    words[0] = static_cast<uint32_t>(ever);
    words[1] = static_cast<uint32_t>(ever >> 32);
    words[2] = rows;
  }
}

std::vector<uint64_t> window_bytes(const LayerLayout& layout) {
  const uint64_t crossing = (layout.world.nodes - 1) * static_cast<uint64_t>(layout.max_tokens);
  std::vector<uint64_t> bytes = window_bytes(static_cast<const Layout&>(layout));
  bytes.insert(bytes.end(),
               {(layout.lead_rows + layout.max_rows) * layout.act_bytes(), layout.max_rows * layout.row_bytes(),
                layout.world.nodes * static_cast<uint64_t>(layout.max_pairs()) * kWord,
                crossing * layout.record_bytes(), crossing * layout.record_bytes(), crossing * layout.sum_bytes(),
                crossing * layout.sum_bytes(), layout.due_back_bytes()});
  return bytes;
}

std::string signal_name(const LayerLayout& layout, uint32_t signal) {
  if (signal < layout.activated(0)) return signal_name(static_cast<const Layout&>(layout), signal);
  if (signal < layout.returned(0)) return fmt::format("activated[block {}]", signal - layout.activated(0));
  if (signal < layout.records_landed(0)) return fmt::format("returned[batch {}]", signal - layout.returned(0));
  if (signal < layout.sums_landed(0, 0))
    return fmt::format("records_landed[node {}]", signal - layout.records_landed(0));
  const uint32_t number = signal - layout.sums_landed(0, 0);
  return fmt::format("sums_landed[node {}, chunk {}]", number / layout.max_chunks(), number % layout.max_chunks());
}

}  // namespace mk::moe
