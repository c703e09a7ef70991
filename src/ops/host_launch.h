// SPDX-License-Identifier: MIT
// ops/host_launch.h — a rank's launch on CPU threads, whatever the operator.
#pragma once

#include <exception>
#include <span>
#include <utility>

#include "core/roles.h"
#include "runtime/host_device.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"
#include "target/cpu/cpu_machine.h"

namespace mk {

// Queues work(machine, post) for every worker of the rank.
template <class Work>
void launch_on_host(runtime::WorldState& world, const RankView& view, const RoleCounts& roles, Work work) {
  runtime::Trace* trace = world.trace();
  auto& device = static_cast<runtime::HostDevice&>(world.device());
  device.team(view.rank).submit(view.workers, [view, roles, trace, work = std::move(work)](int worker) {
    const Post post = roles.post_of(worker);
    cpu::CpuMachine machine(view, post, worker, trace != nullptr);
    if (!machine.begin()) return;
    work(machine, post);
    if (trace != nullptr) trace->append(machine.events());
  });
}

// Calls launch(rank, its args) for every rank that is here.  If one cannot be launched, those that were give up.
template <class Args, class Launch>
void launch_every_rank(runtime::WorldState& world, std::span<const Args> args, Launch&& launch) {
  const int first = world.members().first;
  world.expect_commands();
  try {
    for (int i = 0; i < world.members().count; ++i) launch(first + i, args[i]);
  } catch (const std::exception& error) {
    world.stop(error);
    throw;
  }
}

}  // namespace mk
