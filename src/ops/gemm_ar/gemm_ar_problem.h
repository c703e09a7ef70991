// SPDX-License-Identifier: MIT
// ops/gemm_ar/gemm_ar_problem.h — which path GEMM+AllReduce takes, and what is refused.
#pragma once

#include "mkernel/gemm_ar.h"
#include "ops/gemm/gemm_problem.h"
#include "ops/gemm_ar/gemm_ar_one_shot.h"
#include "ops/gemm_ar/gemm_ar_two_shot.h"

namespace mk::gemm_ar_op {

using gemm::Problem;
using gemm::TileShape;

// One shot moves ·M·N elements over NVLink instead of 2·(R-1)/R·M·N.  It saves a hop, and few rows cut
// into W shards would make W short tiles that cost an SM as much as whole ones.  The limits are where the
// simulator sees the two meet for 8 and 16 ranks; they are not measured.
constexpr int64_t kMostOneShotRows = 256;
constexpr int64_t kMostOneShotBytes = 512 * 1024;

bool chooses_one_shot(const Problem& problem);

// What is asked for, or the choice: kOneShot or kTwoShot, never kAuto.
AllReducePath path_for(const Problem& problem, AllReducePath asked);

void check_problem(const Problem& problem, AllReducePath path, DeviceKind device);

// The split for a rank's seats if the caller left it open; else the caller's, checked.
Roster choose_roles(const Problem& problem, AllReducePath path, const Split& asked, const Seats& seats);

// `intra` in two shots only.
Roster roster(AllReducePath path, int intra, int reduce, int compute);
std::span<const RoleName> roles_of(AllReducePath path);

TwoShotLayout make_two_shot(const Problem& problem, const TileShape& tile, const Roster& roles);
OneShotLayout make_one_shot(const Problem& problem, const TileShape& tile, const Roster& roles);

// The layouts that a rank with these seats on such a device has: the split is the caller's, or chosen.
TwoShotLayout two_shot_for(const Problem& problem, const Split& split, const Seats& seats, DeviceKind device);
OneShotLayout one_shot_for(const Problem& problem, const Split& split, const Seats& seats, DeviceKind device);

// Calls body with the layout of that path.
template <class Body>
auto with_layout_for(const Problem& problem, AllReducePath path, const Split& split, const Seats& seats,
                     DeviceKind device, const Body& body) {
  if (path == AllReducePath::kOneShot) return body(one_shot_for(problem, split, seats, device));
  return body(two_shot_for(problem, split, seats, device));
}

}  // namespace mk::gemm_ar_op
