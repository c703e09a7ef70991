// SPDX-License-Identifier: MIT
// ops/moe/moe_layout.cc — see moe_layout.h.
#include "ops/moe/moe_layout.h"

#include <fmt/format.h>

namespace mk::moe {

std::vector<uint64_t> window_bytes(const Layout& layout) {
  const uint64_t others = layout.world.nodes - 1;
  const uint64_t tokens = layout.max_tokens;
  const uint64_t pairs = layout.max_pairs();
  const uint64_t slices = layout.num_slices(layout.max_tokens);
  const uint64_t drops = layout.drops ? 1 : 0;
  return {2 * layout.world.size() * layout.counts_bytes(),
          (1 + slices) * layout.histogram().bytes(),
          pairs * sizeof(Route),
          others * tokens * kWord,
          others * tokens * kWord,
          others * tokens * layout.token_bytes(),
          others * pairs * sizeof(Route),
          others * tokens * layout.token_bytes(),
          layout.plan_bytes(),
          layout.lead_rows * layout.row_bytes() + layout.max_rows * layout.token_bytes(),
          layout.max_rows * sizeof(Route),
          drops * (1 + slices) * layout.tallies().bytes(),
          drops * 2 * layout.world.size() * layout.claims_bytes(),
          drops * layout.world.size() * sizeof(RankCut),
          drops * tokens * layout.named_slots() * kWord};
}

namespace {

std::string drop_signal_name(const Layout& layout, uint32_t signal) {
  if (signal == layout.tallied()) return "tallied";
  if (signal == layout.tallies_summed()) return "tallies_summed";
  if (signal == layout.cut()) return "cut";
  return fmt::format("claimed[rank {}]", (signal - layout.claimed(0, 0)) % layout.world.size());
}

}  // namespace

std::string signal_name(const Layout& layout, uint32_t signal) {
  if (signal < layout.histograms()) return fmt::format("counted[rank {}]", signal % layout.world.size());
  if (signal == layout.histograms()) return "histograms";
  if (signal == layout.summed()) return "summed";
  if (signal == layout.listed()) return "listed";
  if (signal == layout.planned()) return "planned";
  if (signal < layout.list_landed(0)) return fmt::format("arrived[block {}]", signal - layout.arrived(0));
  if (layout.drops && signal >= layout.tallied()) return drop_signal_name(layout, signal);
  if (signal < layout.landed(0, 0)) return fmt::format("list_landed[node {}]", signal - layout.list_landed(0));
  const uint32_t number = signal - layout.landed(0, 0);
  return fmt::format("landed[node {}, chunk {}]", number / layout.max_chunks(), number % layout.max_chunks());
}

std::string refusal(const Layout& layout, const FaultRecord& record) {
  if (record.signal == kBadId) {
    return fmt::format("topk_idx of token {}, slot {} is {}; it must be -1 or at least 0 and below {}",
                       record.tile / layout.topk, record.tile % layout.topk, static_cast<int64_t>(record.seen),
                       record.wanted);
  }
  const int rank = layout.rank_of_expert(static_cast<int>(record.tile));
  const int local = static_cast<int>(record.tile) - rank * layout.local_experts();
  const int named = layout.local_experts() - layout.shared;
  return fmt::format("rank {} would get {} rows, more than max_rows, which is {}; {} {} is the first that does not fit",
                     rank, record.seen, record.wanted, local < named ? "expert" : "its shared expert",
                     local < named ? rank * named + local : local - named);
}

}  // namespace mk::moe
