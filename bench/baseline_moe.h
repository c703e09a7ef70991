// SPDX-License-Identifier: MIT
// bench/baseline_moe.h — mixtures of experts by cuBLAS and host-driven transfers.
//
// Generous to it: the routing of a run, and so every count, offset and address, is known to the host beforehand, for
// free.  A fused operator works it out.
#pragma once

#include <memory>

#include "bench/baseline.h"
#include "bench/moe_sets.h"

namespace mk::bench {

std::unique_ptr<Baseline> make_moe_baseline(Rig& rig, const BenchCase& bench_case, MoeSets& operands);

}  // namespace mk::bench
