// SPDX-License-Identifier: MIT
// tools/bench_request.h — what the flags of `mkernel bench` say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/attention_case.h"
#include "bench/moe_case.h"
#include "bench/pace_spec.h"
#include "mkernel/options.h"
#include "mkernel/types.h"

namespace mk::tools {

enum class BenchMode { kShapes, kFixedCost };

struct BenchRequest {
  std::string op = "all";
  DeviceKind device = DeviceKind::kCuda;
  int nodes = 2;
  int ranks = 2;  // per node
  bench::PaceSpec pace = bench::kRealPace;
  std::optional<int64_t> m;  // all three or none: then a list of shapes
  std::optional<int64_t> n;
  std::optional<int64_t> k;
  bench::MoeWish moe;              // without tokens a list of shapes
  bench::AttentionWish attention;  // without a length a list of shapes
  DType dtype = DType::kBf16;
  int repetitions = 20;
  Split split;  // empty: chosen for the shape
  std::optional<int64_t> timeout_ms;
  std::optional<std::string> json;
  BenchMode mode = BenchMode::kShapes;
  bool fused_only = false;
};

}  // namespace mk::tools
