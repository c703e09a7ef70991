// SPDX-License-Identifier: MIT
// transport/efa_capability_named.cc — the header knows the capability.
#include "transport/efa_capability.h"

namespace mk {

bool may_write(const efadv_device_attr& attributes) {
  return (attributes.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE) != 0;
}

}  // namespace mk
