// SPDX-License-Identifier: MIT
// tools/launcher.h — where the ranks of `mkernel run` are: threads of this process, or processes of this machine.
#pragma once

#include <functional>
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

// Runs body(seat) in every process there shall be and returns the exit code of the whole.  Only rank 0 returns from it.
int with_launcher(const RunRequest& request, size_t num_worlds, const std::function<int(const Seat&)>& body);

// World number `index` of this command.
World make_world(const RunRequest& request, const Options& options, const Seat& seat, size_t index);

}  // namespace mk::tools
