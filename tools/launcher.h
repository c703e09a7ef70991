// SPDX-License-Identifier: MIT
// tools/launcher.h — where the ranks of `mkernel run` are: threads of this process, processes that
// it starts, or processes that torchrun, mpirun or srun started.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mkernel/world.h"
#include "request.h"

namespace mk::tools {

// What this process is among those that run the same command.
struct Seat {
  int rank = 0;
  std::vector<std::string> ids;  // of the worlds to come, one an operator; none where ranks are threads

  bool reports() const { return rank == 0; }
};

// The request with a launcher that is not auto, and the nodes and ranks there shall be: 0 where the launcher's
// variables say.  Throws Error if those make no sense.
RunRequest with_launcher_chosen(RunRequest request);

// Runs body(seat) in every process there shall be and returns the exit code of this one.  Of processes that it forked
// it returns the worst exit code, has reported what they complained of and how they died, and leaves none behind.
int with_launcher(const RunRequest& request, size_t num_worlds, const std::function<int(const Seat&)>& body);

// The rank of this process if it is one of several that a launcher started.
std::optional<int> rank_of_many();

// Of several processes that a launcher started, and that make no World because of `why`: the others hear it at once,
// instead of waiting for this one until their deadline.  Does nothing once this process has made a World, which tells
// them itself.
void tell_others(const std::string& why);

// World number `index` of this command.
World make_world(const RunRequest& request, const Options& options, const Seat& seat, size_t index);

}  // namespace mk::tools
