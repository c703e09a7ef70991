// SPDX-License-Identifier: MIT
// bench/baseline_attention.h — attention over many ranks by host-driven transfers and the library's engine alone, which
// is faster than cuDNN's attention (docs/performance.md).
#pragma once

#include <memory>

#include "bench/attention_sets.h"
#include "bench/baseline.h"

namespace mk::bench {

std::unique_ptr<Baseline> make_attention_baseline(Rig& rig, const BenchCase& bench_case, AttentionSets& operands);

}  // namespace mk::bench
