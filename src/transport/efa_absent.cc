// SPDX-License-Identifier: MIT
// transport/efa_absent.cc — a build without libefa.
#include "mkernel/error.h"
#include "transport/efa_port.h"

namespace mk {

std::unique_ptr<FabricPort> open_efa_port(const PortSettings&, const WindowRegistry&) {
  throw Error(ErrorCode::kUnavailable, why_no_efa());
}

std::string efa_reach(const PortSettings&, std::byte*, uint64_t) { throw Error(ErrorCode::kUnavailable, why_no_efa()); }

std::string why_no_efa() { return "this build has no libefa (Debian: libibverbs-dev)"; }

std::vector<std::string> efa_devices() { return {}; }

}  // namespace mk
