// SPDX-License-Identifier: MIT
// bench/gather.cc — see gather.h.
#include "bench/gather.h"

#include <utility>

#include "core/schedule.h"

namespace mk::bench {

Gather::Gather(Rig& rig, std::vector<const std::byte*> own, std::vector<std::byte*> gathered, const Cut& cut,
               int64_t shard_bytes, int64_t row_bytes, const GatherLanes& lanes)
    : rig_(rig),
      own_(std::move(own)),
      gathered_(std::move(gathered)),
      cut_(cut),
      shard_bytes_(shard_bytes),
      row_bytes_(row_bytes),
      lanes_(lanes),
      landed_(rig.shape().size() * rig.shape().size() * cut.count()) {}

CopyPiece Gather::piece(const std::byte* shard, int peer, int source, int chunk) const {
  const Range rows = cut_.rows(chunk);
  const int64_t at = rows.first * row_bytes_;
  return {gathered_[peer] + source * shard_bytes_ + at, shard + at, static_cast<uint64_t>(rows.count * row_bytes_)};
}

void Gather::send_own(int rank, int chunk, const Mark& ready, const Arrived& arrived) {
  const WorldShape& world = rig_.shape();
  for (int step = 1; step < world.nodes; ++step) {
    const int peer = rail_peer_at(world, rank, step);
    const CopyPiece bytes = piece(own_[rank], peer, rank, chunk);
    arrived(peer, rank, chunk, rig_.send(Wire::kNetwork, lanes_.network, rank, {&bytes, 1}, ready));
    if (world.ranks == 1) continue;
    landed_[(peer * world.size() + rank) * cut_.count() + chunk] =
        rig_.mark(rig_.lane(Wire::kNetwork, lanes_.network, rank));
  }
  for (int step = 1; step < world.ranks; ++step) {
    const int peer = peer_at(world, rank, step);
    const CopyPiece bytes = piece(own_[rank], peer, rank, chunk);
    arrived(peer, rank, chunk, rig_.send(Wire::kNvlink, lanes_.own, rank, {&bytes, 1}, ready));
  }
}

void Gather::forward(int rank, int chunk, const Arrived& arrived) {
  const WorldShape& world = rig_.shape();
  for (int hop = 1; hop < world.nodes && world.ranks > 1; ++hop) {
    const int source = rail_peer_at(world, rank, hop);
    const Mark& landed = landed_[(rank * world.size() + source) * cut_.count() + chunk];
    for (int step = 1; step < world.ranks; ++step) {
      const int peer = peer_at(world, rank, step);
      const CopyPiece bytes = piece(gathered_[rank] + source * shard_bytes_, peer, source, chunk);
      arrived(peer, source, chunk, rig_.send(Wire::kNvlink, lanes_.forward, rank, {&bytes, 1}, landed));
    }
  }
}

}  // namespace mk::bench
