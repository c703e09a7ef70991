// SPDX-License-Identifier: MIT
// tools/sim_requests.h — what the flags of `mkernel fuzz` and `mkernel sim` say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mkernel/options.h"
#include "mkernel/types.h"

namespace mk::tools {

struct FuzzRequest {
  std::string op = "all";
  std::optional<int> nodes;
  std::optional<int> ranks;
  std::optional<int64_t> m;
  std::optional<int64_t> n;
  std::optional<int64_t> k;
  std::optional<int> launches;
  uint64_t first_seed = 1;
  uint64_t last_seed = 1000;
  int seed_flags = 0;                // --seeds and --seed: at most one
  std::optional<std::string> trace;  // of a single seed
};

struct SimRequest {
  std::string op;
  std::string cluster = "h200-2x8-cx7";  // a preset or a file
  int64_t m = 32768;
  std::optional<int64_t> n;  // where empty: a share of M that the operator knows
  std::optional<int64_t> k;
  DType dtype = DType::kBf16;
  Split split;  // empty: chosen for the shape
  std::optional<std::string> json;
};

}  // namespace mk::tools
