// SPDX-License-Identifier: MIT
// target/sim/chrome_trace.h — a simulated run for chrome://tracing or Perfetto: a track per worker.
#pragma once

#include <ostream>

#include "target/sim/sim_core.h"

namespace mk::sim {

// The same run gives the same bytes.
void write_chrome_trace(std::ostream& out, const SimCore& core);

}  // namespace mk::sim
