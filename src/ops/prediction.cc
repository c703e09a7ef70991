// SPDX-License-Identifier: MIT
// ops/prediction.cc — see prediction.h.
#include "ops/prediction.h"

namespace mk {
namespace {

double us(double picoseconds) { return picoseconds / sim::kMicrosecond; }

RoleUse use_of(const sim::SimWorld& world, int role) {
  const sim::SimSpec& spec = world.core().spec;
  RoleUse use{spec.names.role(role), spec.roles.count(role), 0, 0, 0};
  double total = 0;
  for (const sim::Worker& worker : world.core().workers) {
    if (worker.post.role != role) continue;
    use.busy += static_cast<double>(worker.busy);
    use.waiting += static_cast<double>(worker.waiting);
    total += static_cast<double>(world.ended());
  }
  use.busy /= total;
  use.waiting /= total;
  use.idle = 1 - use.busy - use.waiting;
  return use;
}

}  // namespace

Prediction predict(const sim::SimWorld& world, double flops) {
  const sim::SimSpec& spec = world.core().spec;
  Prediction p;
  p.time_us = us(static_cast<double>(world.ended()));
  p.tflops_per_rank = flops / p.time_us * 1e-6;
  for (int rank = 0; rank < spec.world.size(); ++rank) {
    p.nvlink_bytes = std::max(p.nvlink_bytes, world.nvlink_bytes(rank));
    p.network_bytes = std::max(p.network_bytes, world.network_bytes(rank));
  }
  p.compute_us = us(flops / (spec.costs.sm_tflops * Seats(0, spec.workers_per_sm).needed_by(spec.roles)));
  p.nvlink_us = us(static_cast<double>(sim::Costs::transfer(p.nvlink_bytes, spec.costs.nvlink_gb_s)));
  p.network_us = us(static_cast<double>(sim::Costs::transfer(p.network_bytes, spec.costs.nic_gb_s)));
  for (int role = spec.roles.num_roles() - 1; role >= 0; --role) {
    if (spec.roles.count(role) > 0) p.roles.push_back(use_of(world, role));
  }
  return p;
}

}  // namespace mk
