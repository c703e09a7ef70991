// SPDX-License-Identifier: MIT
// tests/install/consumer/installed_program.cc — prints the library's version and the header's, and catches an Error.
#include <cstdio>

#include "mkernel/mkernel.h"

int main() {
  std::printf("%s %d.%d.%d\n", mk::version(), MKERNEL_VERSION_MAJOR, MKERNEL_VERSION_MINOR, MKERNEL_VERSION_PATCH);
  try {
    mk::World::local(/*nodes=*/0, /*ranks_per_node=*/1, mk::DeviceKind::kCpu);
  } catch (const mk::Error& error) {
    return error.code() == mk::ErrorCode::kInvalidArgument ? 0 : 1;
  }
  return 1;
}
