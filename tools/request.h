// SPDX-License-Identifier: MIT
// tools/request.h — what the flags of `mkernel run` say, and what is taken where they say nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mkernel/options.h"
#include "mkernel/ring_attention.h"
#include "mkernel/types.h"
#include "moe_routing.h"

namespace mk::tools {

// Where the ranks are: threads of one process, processes that it starts, or processes that somebody else started.
enum class Launcher { kAuto, kThread, kFork, kEnv };

constexpr const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kAuto: return "auto";
    case Launcher::kThread: return "thread";
    case Launcher::kFork: return "fork";
    case Launcher::kEnv: return "env";
  }
  return "unknown";
}

constexpr int kNodes = 2;
constexpr int kRanks = 8;

struct RunRequest {
  std::string op = "all";
  DeviceKind device = DeviceKind::kAuto;
  std::optional<int> nodes;  // where empty: kNodes, or what the launcher's variables say
  std::optional<int> ranks;  // per node; where empty: kRanks, or the same
  Launcher launcher = Launcher::kAuto;
  std::optional<int64_t> m;  // where empty: Defaults of the device
  std::optional<int64_t> n;
  std::optional<int64_t> k;
  std::optional<int64_t> tokens;  // these are of mixtures of experts; where empty: MoeDefaults
  std::optional<int64_t> hidden;
  std::optional<int64_t> inter;
  std::optional<int> experts;
  std::optional<int> topk;
  Routing routing = Routing::kUniform;
  Direction direction = Direction::kForward;
  float clamp = 0;
  std::optional<int64_t> max_rows;  // where empty: as many as are routed
  std::optional<int64_t> batch;     // these are of attention; where empty: AttentionDefaults
  std::optional<int64_t> seq;
  std::optional<int64_t> heads;
  std::optional<int64_t> kv_heads;
  std::optional<int64_t> head_dim;
  AttentionMask mask{.kind = MaskKind::kCausal};
  SequenceOrder layout = SequenceOrder::kZigzag;
  std::optional<float> scale;  // where empty: 1 / √head_dim
  bool sink = false;
  std::optional<std::vector<int32_t>> packed;  // lengths of sequences; none: drawn
  DType dtype = DType::kBf16;
  std::optional<int> launches;
  Split split;  // empty: chosen for the shape
  uint64_t seed = 1;
  std::optional<int64_t> timeout_ms;  // where empty: Options::from_env
  std::optional<std::string> net;     // where empty: Options::from_env
  bool stats = false;                 // of proxies, printed below each row
  std::optional<std::string> json;    // where empty: none is written
};

// Sizes that keep a device busy, yet are run and checked within seconds.
struct Defaults {
  int64_t m = 0;  // rounded up to a multiple of the world size
  int64_t n = 0;
  int64_t k = 0;
  int launches = 0;
  int64_t memory_bytes = 0;  // most that inputs, outputs and workspace of the launches in memory may take
};

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr Defaults kCpuDefaults{.m = 1024, .n = 192, .k = 256, .launches = 3, .memory_bytes = 4 * kGiB};
constexpr Defaults kCudaDefaults{.m = 8192, .n = 2048, .k = 4096, .launches = 5, .memory_bytes = 60 * kGiB};

struct MoeDefaults {
  int64_t tokens = 0;  // of a rank
  int64_t hidden = 0;
  int64_t inter = 0;
  int local_experts = 0;  // of a rank
  int topk = 0;           // or as many as there are experts
};

constexpr MoeDefaults kCpuMoeDefaults{.tokens = 64, .hidden = 64, .inter = 96, .local_experts = 2, .topk = 2};
constexpr MoeDefaults kCudaMoeDefaults{.tokens = 1024, .hidden = 2048, .inter = 1024, .local_experts = 4, .topk = 8};

struct AttentionDefaults {
  int64_t seq = 0;  // of all ranks together, rounded up to parts of equal length
  int64_t heads = 0;
  int64_t kv_heads = 0;  // or as many as there are heads
  int64_t head_dim = 0;
};

constexpr AttentionDefaults kCpuAttentionDefaults{.seq = 512, .heads = 4, .kv_heads = 2, .head_dim = 32};
constexpr AttentionDefaults kCudaAttentionDefaults{.seq = 16384, .heads = 32, .kv_heads = 8, .head_dim = 128};

constexpr const AttentionDefaults& attention_defaults_of(DeviceKind device) {
  return device == DeviceKind::kCuda ? kCudaAttentionDefaults : kCpuAttentionDefaults;
}

constexpr const MoeDefaults& moe_defaults_of(DeviceKind device) {
  return device == DeviceKind::kCuda ? kCudaMoeDefaults : kCpuMoeDefaults;
}

constexpr const Defaults& defaults_of(DeviceKind device) {
  return device == DeviceKind::kCuda ? kCudaDefaults : kCpuDefaults;
}

}  // namespace mk::tools
