// SPDX-License-Identifier: MIT
// bench/paced_split.h — the split of a rank of the scale model, whose NIC is a warp.
//
// The warp that plays the NIC takes four buffers of the rank's last communication block: enough for its rate beside a
// GEMM.  So a rank of the model has fewer workers there than the library would use.
#pragma once

#include <span>
#include <string_view>

#include "core/roles.h"
#include "core/world_shape.h"
#include "mkernel/options.h"

namespace mk::bench {

// Whether the last block of so many communication workers has room for the NIC.
bool leaves_buffers(int communicating);

// The operator's choice with fewer workers that communicate, so that the NIC has room; or with more, where a role sums.
Roster with_room_for_nic(std::span<const RoleName> names, Roster chosen, std::string_view summing = "reduce");

// The caller's split as it is, or the operator's choice so; `chosen` is the roster of either.  Throws Error if the
// caller's has no room for the NIC.
Split paced_split(const WorldShape& world, const Split& asked, std::span<const RoleName> names, const Roster& chosen,
                  std::string_view summing = "reduce");

}  // namespace mk::bench
