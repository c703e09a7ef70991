// SPDX-License-Identifier: MIT
// tools/usage.cc — see usage.h.
#include "usage.h"

#include <string_view>

namespace mk::tools {
namespace {

struct Renaming {
  std::string_view argument;  // what a message of the library begins with, up to " is "
  std::string_view flag;
};

constexpr Renaming kRenamings[] = {
    {"m", "--m"},
    {"n", "--n"},
    {"k", "--k"},
    {"hidden", "--hidden"},
    {"inter", "--inter"},
    {"experts", "--experts"},
    {"topk", "--topk"},
    {"max_tokens", "--tokens"},
    {"batch", "--batch"},
    {"heads", "--heads"},
    {"kv_heads", "--kv-heads"},
    {"dim", "--head-dim"},
    {"scale", "--scale"},
    {"dtype", "--dtype"},
    {"device", "--device"},
    {"launches", "--launches"},
    {"nodes", "--nodes"},
    {"ranks_per_node", "--ranks"},
    {"nodes x ranks", "--nodes x --ranks"},
    {"ring_capacity", "MKERNEL_RING_CAPACITY"},
    {"nics", "MKERNEL_NICS"},
    {"queue_depth", "MKERNEL_QUEUE_DEPTH"},
    {"gpu_direct", "MKERNEL_GPU_DIRECT"},
};

}  // namespace

std::string in_flags(const std::string& message, const RunRequest& request) {
  const std::string_view whole = message;
  const size_t end = whole.find(" is ");
  const std::string_view argument = whole.substr(0, end);
  const std::string_view rest = end == whole.npos ? "" : whole.substr(end);
  if (argument == "timeout_ms")
    return fmt::format("{}{}", request.timeout_ms ? "--timeout-ms" : "MKERNEL_TIMEOUT", rest);
  if (argument == "net") return fmt::format("{}{}", request.net ? "--net" : "MKERNEL_NET", rest);
  if (argument == "n" && request.op.starts_with("moe")) return fmt::format("--inter{}", rest);
  for (const Renaming& renaming : kRenamings) {
    if (argument == renaming.argument) return fmt::format("{}{}", renaming.flag, rest);
  }
  if (whole.starts_with("split")) return fmt::format("--split: {}", message);
  if (whole.starts_with("the world has")) return fmt::format("--ranks: {}", message);
  return message;
}

}  // namespace mk::tools
