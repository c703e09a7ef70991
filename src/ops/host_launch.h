// SPDX-License-Identifier: MIT
// ops/host_launch.h — launches every rank of this process, and runs a rank's workers on CPU threads.
#pragma once

#include <exception>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/what.h"
#include "core/roles.h"
#include "runtime/host_device.h"
#include "runtime/plan.h"
#include "runtime/world_state.h"
#include "target/cpu/cpu_machine.h"

namespace mk {

// Queues work(machine, post) for every worker of the rank.
template <class Work>
void launch_on_host(runtime::WorldState& world, const RankView& view, const Roster& roles, Work work) {
  runtime::Trace* trace = world.trace();
  auto& device = static_cast<runtime::HostDevice&>(world.device());
  device.team(view.rank).submit(view.workers, [view, roles, trace, work = std::move(work)](int worker) {
    const Post post = roles.post_of(worker);
    cpu::CpuMachine machine(view, post, worker, trace != nullptr);
    if (!machine.begin()) return;
    try {
      work(machine, post);
      if (trace != nullptr) trace->append(machine.events());
    } catch (const std::bad_alloc&) {  // an exception that leaves a thread ends the process
      machine.give_up_without_memory();
    }
  });
}

// Kernels of one stream follow each other, and ranks wait for each other: on one stream they would wait for ever.
template <class Args>
void check_streams(const runtime::Members& members, std::span<const Args> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    for (size_t other = 0; other < i; ++other) {
      check_arg(runtime::is_default(args[i].stream) || args[i].stream != args[other].stream,
                "stream of rank {} is also that of rank {}; each rank needs one of its own", members.first + i,
                members.first + other);
    }
  }
}

// Calls launch(rank, its args) for every rank that is here, in its device's context and, where its args name no stream,
// in the order of the default stream.  If one cannot be launched, those that were give up.
template <class Args, class Launch>
void launch_every_rank(runtime::WorldState& world, std::span<const Args> args, Launch&& launch) {
  check_streams(world.members(), args);
  const int first = world.members().first;
  std::vector<int> on_default;
  for (int i = 0; i < world.members().count; ++i) {
    if (runtime::is_default(args[i].stream)) on_default.push_back(first + i);
  }
  world.expect_commands();
  world.device().use([&] {
    try {
      world.device().enter_default_stream(on_default);
      for (int i = 0; i < world.members().count; ++i) launch(first + i, args[i]);
      world.device().leave_default_stream(on_default);
    } catch (const Error& error) {
      world.stop(error);
      throw world.explain(error);
    } catch (const std::exception& error) {  // no memory, say
      world.stop(error);
      throw world.explain(Error(ErrorCode::kDevice, what_of(error)));
    }
  });
}

}  // namespace mk
