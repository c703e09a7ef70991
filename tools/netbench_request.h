// SPDX-License-Identifier: MIT
// tools/netbench_request.h — what the flags of `mkernel netbench` say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mk::tools {

struct NetbenchRequest {
  std::string net = "all";
  std::vector<uint64_t> sizes{8, 1 << 10, 64 << 10, 1 << 20, 16 << 20};  // bytes
  double seconds = 1;                                                    // a row
  std::optional<std::string> json;
};

}  // namespace mk::tools
