// SPDX-License-Identifier: MIT
// bench/gather.h — a host-driven all-gather over rails and inside nodes, chunk by chunk.
//
// A chunk goes to the rail peers over the network and to the peers of the node over NVLink; what came over a
// rail is passed on inside the node.
#pragma once

#include <functional>
#include <vector>

#include "bench/cut.h"
#include "bench/rig.h"

namespace mk::bench {

struct GatherLanes {
  int network = 0;
  int own = 0;      // NVLink: what a rank brings itself
  int forward = 1;  // NVLink: what came over a rail
};

class Gather {
 public:
  // `source`'s chunk lies at `rank` after the event.
  using Arrived = std::function<void(int rank, int source, int chunk, cudaEvent_t event)>;

  // Shards lie one after the other in gathered[rank]; own[rank] is the rank's, in there or elsewhere.
  Gather(Rig& rig, std::vector<const std::byte*> own, std::vector<std::byte*> gathered, const Cut& cut,
         int64_t shard_bytes, int64_t row_bytes, const GatherLanes& lanes);

  // Queues what a rank itself sends of a chunk that is ready, then what it passes on of one that was sent.
  void send_own(int rank, int chunk, const Mark& ready, const Arrived& arrived);
  void forward(int rank, int chunk, const Arrived& arrived);

 private:
  CopyPiece piece(const std::byte* shard, int peer, int source, int chunk) const;

  Rig& rig_;
  std::vector<const std::byte*> own_;
  std::vector<std::byte*> gathered_;
  Cut cut_;
  int64_t shard_bytes_;
  int64_t row_bytes_;
  GatherLanes lanes_;
  std::vector<Mark> landed_;  // [(rank · ranks + source) · chunks + chunk], from rail peers
};

}  // namespace mk::bench
