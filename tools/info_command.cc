// SPDX-License-Identifier: MIT
// tools/info_command.cc — `mkernel info`: what this build and this machine can do.
#include <fmt/format.h>

#include <thread>

#include "bench_commands.h"
#include "build_info.h"
#include "commands.h"
#include "operators.h"
#include "runtime/device.h"
#include "sim_commands.h"
#include "transport/discovery.h"
#include "transport/fabric_kinds.h"

namespace mk::tools {

void info_command() {
  const std::string missing = runtime::why_no_cuda();
  const std::string gpu = runtime::describe_cuda();
  fmt::print("version    {}\n", MKERNEL_VERSION);
  fmt::print("commit     {}\n", MKERNEL_COMMIT);
  fmt::print("build      {}\n", MKERNEL_BUILD_OPTIONS);
  fmt::print("cuda       {}\n", runtime::describe_cuda_build());
  fmt::print("cpu        {} threads\n", std::thread::hardware_concurrency());
  fmt::print("gpu        {}\n", gpu.empty() ? "none" : gpu);
  fmt::print("simulator  {}\n", why_no_sim().empty() ? "yes" : "no");
  fmt::print("auto       {}\n", missing.empty() ? "cuda" : "cpu");
  fmt::print("missing    {}\n", missing.empty() ? "nothing" : "--device cuda: " + missing);
  if (!why_no_sim().empty()) fmt::print("missing    fuzz, sim: {}\n", why_no_sim());
  if (!why_no_bench().empty()) fmt::print("missing    bench: {}\n", why_no_bench());
  if (!why_no_discovery().empty()) fmt::print("missing    topo: {}\n", why_no_discovery());
  for (const FabricKind& kind : fabric_kinds()) {
    const std::string trouble = kind.why_not();
    if (!trouble.empty()) {
      fmt::print("missing    --net {}: {}\n", kind.name, trouble);
      continue;
    }
    fmt::print("fabric     {}: {}\n", kind.name, kind.between_processes ? "between processes" : "inside one process");
  }
  for (const Operator& one : operators()) fmt::print("operator   {}: {}\n", one.name, one.summary);
}

}  // namespace mk::tools
