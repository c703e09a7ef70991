// SPDX-License-Identifier: MIT
// ops/moe/moe_plan.h — a rank's plan of a launch, from the counts of all ranks.
#pragma once

#include <cstdint>
#include <span>

#include "ops/moe/moe_layout.h"

namespace mk::moe {

// Of the first rank that would get too many rows: how many, and its first expert that does not fit.
struct Refusal {
  int expert = -1;
  uint64_t rows = 0;
};

// PlanWords of `rank` (moe_layout.h); counts[r] are those of rank r.
//
// Those that do not belong to a batch.  If it refuses, only the status is written.
Refusal write_plan(const Layout& layout, int rank, std::span<const uint32_t* const> counts, uint32_t* plan);
// Those of a batch.
void write_batch(const Layout& layout, int rank, int batch, std::span<const uint32_t* const> counts, uint32_t* plan);

}  // namespace mk::moe
