// SPDX-License-Identifier: MIT
// bench/paced_split.h — the split of a rank of the scale model, whose NIC is a warp.
//
// The warp that plays the NIC takes four buffers of the rank's last communication block: enough for its rate beside a
// GEMM.  So a rank of the model has fewer workers there than the library would use.
#pragma once

#include <span>

#include "core/roles.h"

namespace mk::bench {

// Whether the last block of so many communication workers has room for the NIC.
bool leaves_buffers(int communicating);

// The operator's choice with fewer workers that communicate, so that the NIC has room.
Roster with_room_for_nic(std::span<const RoleName> names, Roster chosen);

}  // namespace mk::bench
