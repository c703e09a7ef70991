// SPDX-License-Identifier: MIT
// runtime/proxy_cores.cc — see proxy_cores.h.
#include "runtime/proxy_cores.h"

#include "mkernel/error.h"
#include "transport/discovery.h"

namespace mk::runtime {
namespace {

bool has_nics(const std::string& fabric) { return fabric == "verbs" || fabric == "efa"; }

}  // namespace

std::vector<int> cores_in(const Placement& placement, int local_rank) {
  if (local_rank >= static_cast<int>(placement.gpus.size())) return {};
  const GpuPlacement& gpu = placement.gpus[local_rank];
  return gpu.rails.empty() ? std::vector<int>{} : gpu.cores;
}

std::vector<int> proxy_cores(const std::string& fabric, int local_rank, const Options& options) {
  if (!options.pin_proxies || !has_nics(fabric)) return {};
  try {
    return cores_in(place(discover_topology(), options.nics), local_rank);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace mk::runtime
