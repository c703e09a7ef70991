// SPDX-License-Identifier: MIT
// transport/efa_capability.h — whether an EFA device can write into a peer's memory.  Headers name that capability
// since rdma-core 46 only.
#pragma once

#include <infiniband/efadv.h>

namespace mk {

// False if the device is known not to write into a peer's memory.
bool may_write(const efadv_device_attr& attributes);

}  // namespace mk
