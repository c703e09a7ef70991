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
#include "standard_streams.h"
#include "transport/discovery.h"
#include "transport/fabric_kinds.h"

namespace mk::tools {

void info_command() {
  const std::string missing = runtime::why_no_cuda();
  const std::string gpu = runtime::describe_cuda();
  print_line("version    {}", MKERNEL_VERSION);
  print_line("commit     {}", MKERNEL_COMMIT);
  print_line("build      {}", MKERNEL_BUILD_OPTIONS);
  print_line("cuda       {}", runtime::describe_cuda_build());
  print_line("cpu        {} threads", std::thread::hardware_concurrency());
  print_line("gpu        {}", gpu.empty() ? "none" : gpu);
  print_line("simulator  {}", why_no_sim().empty() ? "yes" : "no");
  print_line("auto       {}", missing.empty() ? "cuda" : "cpu");
  print_line("missing    {}", missing.empty() ? "nothing" : "--device cuda: " + missing);
  if (!why_no_sim().empty()) print_line("missing    fuzz, sim: {}", why_no_sim());
  if (!why_no_bench().empty()) print_line("missing    bench: {}", why_no_bench());
  if (!why_no_discovery().empty()) print_line("missing    topo: {}", why_no_discovery());
  for (const FabricKind& kind : fabric_kinds()) {
    const std::string trouble = kind.why_not();
    if (!trouble.empty()) {
      print_line("missing    --net {}: {}", kind.name, trouble);
      continue;
    }
    print_line("fabric     {}: {}", kind.name, kind.between_processes ? "between processes" : "inside one process");
  }
  for (const Operator& one : operators()) print_line("operator   {}: {}", one.name, one.summary);
}

}  // namespace mk::tools
