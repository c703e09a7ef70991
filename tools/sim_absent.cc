// SPDX-License-Identifier: MIT
// tools/sim_absent.cc — compiled in place of the simulator's commands when Boost.Context is missing.
#include "sim_commands.h"
#include "usage.h"

namespace mk::tools {

std::string why_no_sim() {
  return "this build has no simulator: install Boost.Context (libboost-context-dev) and build again";
}

int fuzz_command(const FuzzRequest&) { throw UsageError("fuzz: " + why_no_sim()); }
int sim_command(const SimRequest&) { throw UsageError("sim: " + why_no_sim()); }

}  // namespace mk::tools
