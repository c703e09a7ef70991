// SPDX-License-Identifier: MIT
// bench/paced_split.h — the split of a rank of the scale model, whose NIC is a warp.
//
// The warp that plays the NIC has the buffers that the workers of a rank's last communication block leave: four are
// enough for its pace beside a GEMM.  So a rank of the model has other workers than the library would take.
#pragma once

#include <span>

#include "core/roles.h"

namespace mk::bench {

// Whether the last block of so many communication workers has room for the NIC.
bool leaves_buffers(int communicating);

// The operator's choice with fewer workers that communicate, so that the NIC has room.
Roster with_room_for_nic(std::span<const RoleName> names, Roster chosen);

}  // namespace mk::bench
