// SPDX-License-Identifier: MIT
// transport/rdma_completion.h — what a NIC says about a message that failed, in words.
#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace mk {

// "the peer does not answer (transport retry counter exceeded, vendor code 0x81)"
std::string describe_completion(const ibv_wc& completion);

}  // namespace mk
