// SPDX-License-Identifier: MIT
// target/sm90/rank_words.h — what this target keeps in RankView::target_words.
#pragma once

#include <cstdint>

#include "core/rank_view.h"
#include "core/roles.h"

namespace mk::sm90 {

// Workers of a role that have begun to settle, over all launches.
MK_HD inline uint64_t* settlers_of(const RankView& view, int role) { return view.target_words + role; }

// What the last of a role's `count` workers finds there in launch `epoch`, itself included.  Roles have counters of
// their own: in one counter for all, the last worker of a role may find another number, and then nobody waits.
MK_HD constexpr uint64_t settlers_after(uint64_t epoch, int count) { return epoch * count; }

// Waves of tiles that compute blocks have come to, over all launches (in_step.cuh); or, where they claim tiles, the
// launch and how many are claimed (claiming_machine.cuh).
MK_HD inline uint64_t* steps_of(const RankView& view) { return view.target_words + kMostRoles; }

// When a worker of the rank last looked at the stop word, in ns of the GPU's clock; kStopSeen once it was set.
MK_HD inline uint64_t* looked_of(const RankView& view) { return view.target_words + kMostRoles + 1; }
constexpr uint64_t kStopSeen = UINT64_MAX;

static_assert(kMostRoles + 2 <= kTargetWords);

}  // namespace mk::sm90
