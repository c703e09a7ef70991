// SPDX-License-Identifier: MIT
// transport/verbs_absent.cc — a build without libibverbs.
#include "mkernel/error.h"
#include "transport/verbs_port.h"

namespace mk {

std::unique_ptr<FabricPort> open_verbs_port(const PortSettings&, const WindowRegistry&) {
  throw Error(ErrorCode::kUnavailable, why_no_verbs());
}

std::string verbs_reach(const PortSettings&, std::byte*, uint64_t) {
  throw Error(ErrorCode::kUnavailable, why_no_verbs());
}

std::string why_no_verbs() { return "this build has no libibverbs (Debian: libibverbs-dev)"; }

std::vector<std::string> verbs_devices() { return {}; }

}  // namespace mk
