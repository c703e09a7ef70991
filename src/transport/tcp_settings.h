// SPDX-License-Identifier: MIT
// transport/tcp_settings.h — every setting of the tcp fabric, with its meaning and default.
#pragma once

#include <cstddef>

namespace mk {

// When the kernel sends from a window instead of from its own copy.
enum class Zerocopy {
  kNever,
  kWhereItHelps,  // until the kernel says that it copied anyway, as it does inside one machine
  kAlways,        // for tests
};

struct TcpSettings {
  // Connections to each peer; puts are spread over them.  The same on all ranks.
  int connections = 4;

  // Puts are cut into parts of at least this size, at most one a connection: one connection has the speed of one core
  // at each end and of one path through the network.
  size_t stripe_bytes = 256 << 10;

  // Puts or parts that a connection holds, waiting or on their way, before `put` says kFull.
  int queue_puts = 64;

  // The kernel's buffers, each way; 0: the kernel's own choice, which grows as needed.
  int buffer_bytes = 0;

  Zerocopy zerocopy = Zerocopy::kWhereItHelps;

  // Smaller sends are copied: a copy is then cheaper than pinning pages.
  size_t zerocopy_bytes = 64 << 10;
};

}  // namespace mk
