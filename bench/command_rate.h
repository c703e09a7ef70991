// SPDX-License-Identifier: MIT
// bench/command_rate.h — how many commands a second go through a ring and its proxy, whatever the fabric.
//
// Producers push as workers do; the fabric takes every put and says that it is complete.  No two commands are
// neighbours, so each is a put of its own.
#pragma once

#include <cstdint>

namespace mk::bench {

struct CommandFigures {
  int producers = 0;
  int runs = 0;
  uint64_t commands = 0;  // of all runs
  double per_second = 0;  // median of runs, from the first push to the last completion
  double per_proxy_second =
      0;  // the same, by the processor time that the proxy's thread had: other load does not count
};

// Takes about so many seconds.
CommandFigures measure_commands(int num_producers, double seconds);

}  // namespace mk::bench
