// SPDX-License-Identifier: MIT
// tools/bench_absent.cc — compiled in place of bench_command.cc when CUDA or cuBLAS is missing.
#include "bench_commands.h"
#include "usage.h"

namespace mk::tools {

std::string why_no_bench() {
  return "this build has no benchmarks: install a CUDA toolkit 12.8 or newer with cuBLAS and build again";
}

int bench_command(const BenchRequest&) { throw UsageError("bench: " + why_no_bench()); }

}  // namespace mk::tools
