// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_layout.cc — see moe_layer_layout.h.
#include "ops/moe/moe_layer_layout.h"

#include <fmt/format.h>

namespace mk::moe {

void add_due_back(const LayerLayout& layout, int rank, const uint32_t* plan, uint32_t* due) {
  for (int i = 0; i < layout.node_experts(); ++i) {
    uint64_t rows = uint64_t{due[2 * i + 1]} << 32 | due[2 * i];
    for (int step = 0; step < layout.world.nodes; ++step) {
      rows += plan[layout.source_word(step, layout.visit_of_expert(rank, i)) + 2];
    }
    due[2 * i] = static_cast<uint32_t>(rows);
    due[2 * i + 1] = static_cast<uint32_t>(rows >> 32);
  }
}

std::vector<uint64_t> window_bytes(const LayerLayout& layout) {
  const uint64_t crossing = (layout.world.nodes - 1) * static_cast<uint64_t>(layout.max_tokens);
  std::vector<uint64_t> bytes = window_bytes(static_cast<const Layout&>(layout));
  bytes.insert(bytes.end(),
               {(layout.lead_rows + layout.max_rows) * layout.act_bytes(),
                layout.world.nodes * static_cast<uint64_t>(layout.max_pairs()) * layout.returned_bytes(),
                crossing * layout.record_bytes(), crossing * layout.record_bytes(), crossing * layout.sum_bytes(),
                crossing * layout.sum_bytes(), layout.node_experts() * 2 * kWord});
  return bytes;
}

std::string signal_name(const LayerLayout& layout, uint32_t signal) {
  if (signal < layout.activated(0)) return signal_name(static_cast<const Layout&>(layout), signal);
  if (signal < layout.returned(0)) return fmt::format("activated[block {}]", signal - layout.activated(0));
  if (signal < layout.records_landed(0)) return fmt::format("returned[expert {}]", signal - layout.returned(0));
  if (signal < layout.sums_landed(0, 0))
    return fmt::format("records_landed[node {}]", signal - layout.records_landed(0));
  const uint32_t number = signal - layout.sums_landed(0, 0);
  return fmt::format("sums_landed[node {}, chunk {}]", number / layout.max_chunks(), number % layout.max_chunks());
}

}  // namespace mk::moe
