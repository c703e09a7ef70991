// SPDX-License-Identifier: MIT
// tools/sim_absent.cc — compiled in place of the simulator's commands when Boost.Context is missing.
#include "sim_commands.h"
#include "usage.h"

namespace mk::tools {
namespace {

constexpr const char* kMissing =
    "this build has no simulator: install Boost.Context (libboost-context-dev) and build again";

}  // namespace

int fuzz_command(const FuzzRequest&) { throw UsageError(std::string("fuzz: ") + kMissing); }
int sim_command(const SimRequest&) { throw UsageError(std::string("sim: ") + kMissing); }

}  // namespace mk::tools
