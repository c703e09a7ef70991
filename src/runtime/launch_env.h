// SPDX-License-Identifier: MIT
// runtime/launch_env.h — what a launcher told this process: its rank, the world, and where all ranks meet.
//
// A pure function of the variables.  The innermost launcher wins: torchrun over mpirun, mpirun over srun.
#pragma once

#include <optional>
#include <string>

#include "core/world_shape.h"
#include "runtime/environment.h"
#include "transport/socket_address.h"

namespace mk::runtime {

struct LaunchEnv {
  std::string launcher;  // "torchrun", "mpirun", "mpiexec" or "srun"
  int rank = 0;
  int size = 0;
  // On this machine; empty if the launcher does not say.
  std::optional<int> local_rank;
  std::optional<int> local_size;

  std::string job;  // tells it from other jobs of the same user

  // Where rank 0 listens; empty: it leaves its address in a file of `folder`.
  std::optional<Endpoint> root;
  std::string folder;  // of this user's own files

  std::string secret;  // the same on all ranks; empty: a file of `folder` has one
};

// Nothing if no launcher's variables are there.  Throws Error(kInvalidArgument), naming the variable, what it was and
// what is needed.
std::optional<LaunchEnv> read_launch_env(const Lookup& lookup);

// The same, but that there is none is an Error, too.
LaunchEnv require_launch_env(const Lookup& lookup);

// nodes x ranks; 0 where the launcher's own shall be taken.  Throws Error if that is no world of these processes.
WorldShape shape_for(const LaunchEnv& env, int nodes, int ranks);

}  // namespace mk::runtime
