// SPDX-License-Identifier: MIT
// transport/rdma_settings.h — every setting of the verbs and efa fabrics, with its meaning and default.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mk {

// How a NIC may write into windows.  No signal depends on it: signals are paid by the receiver's proxy, after a
// completion, and a completion is written behind all bytes it speaks of.
enum class MemoryOrdering {
  kStrict,
  kRelaxed,  // writes may pass each other on their way through PCIe; asked for, and had where the kernel knows it
};

struct RdmaSettings {
  // As `mkernel topo` names them: "mlx5_0", or "mlx5_0:2" for its port 2.  Empty: the first with an active port.
  // Puts are spread over several.  As many on all ranks: the first of one talks with the first of the other.
  std::vector<std::string> devices;

  // Queue pairs to each peer, on each device; puts are spread over them.  The same on all ranks.
  int queues = 2;

  // Messages under way on a queue pair, and puts that wait for one of a peer's, before `put` says kFull.  0: chosen,
  // which is kUsualDepth, or less where a device's queues hold less.  To a peer with less it is the peer's.
  int depth = 0;
  static constexpr int kUsualDepth = 128;
  static constexpr int kLeastDepth = 2;  // of those that are chosen
  static constexpr int kMostDepth = 8192;

  // Which of the port's addresses; -1: of an Ethernet port RoCE v2 with an IPv4 address, else RoCE v2, else v1; of
  // any other the first.
  int gid_index = -1;

  // The traffic class of RoCE (its upper six bits are the DSCP) and the service level of InfiniBand.
  int traffic_class = 0;
  int service_level = 0;

  // A message without an answer is sent again after 4.096 µs · 2^timeout, `retries` times (at most 7, which soft-RoCE
  // takes for ever), then the peer counts as gone.  verbs only: an EFA device decides for itself.
  int timeout = 18;
  int retries = 6;

  // The longest message; longer puts are cut into parts.  0: the device's limit.
  uint64_t most_bytes = 0;

  // Where there are several devices, puts are cut into parts of at least this size, one a device.
  uint64_t stripe_bytes = 256 << 10;

  MemoryOrdering ordering = MemoryOrdering::kRelaxed;
};

}  // namespace mk
