// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_walk.cuh — a warp of a compute block takes the steps of the protocol, ahead of its
// loads.
//
// To find the next visit takes microseconds, and its keys may not be here yet; meanwhile the load job loads what was
// passed to it (WalkedVisits).  The walk job is the only one that waits for other ranks.  It must not keep what they
// wait for: signals go through the same queue, and the load job adds them when it has read what came before, whether
// there is another visit or not.  So nobody waits in a circle: who waits at a step has passed on all earlier ones.
#pragma once

#include "ops/attention/ring_attention_maps.cuh"
#include "ops/attention/ring_attention_params.cuh"
#include "ops/attention/ring_attention_protocol.h"
#include "target/sm90/claiming_machine.cuh"

namespace mk::attention {

class WalkMachine : public sm90::ClaimingMachine {
 public:
  __device__ WalkMachine(const RankView& view, const Post& post, int worker, WalkedGiver& giver)
      : ClaimingMachine(view, post, worker, /*part=*/1), view_(view), giver_(giver) {}

  // The load job does it.
  __device__ void add(const Signal& signal, uint64_t amount) {
    if (sm90::is_one_lane()) {
      WalkedVisit& next = giver_.place();
      next.told = view_.windows.resolve(view_.world, signal.rank, signal.index);
      next.amount = amount;
      giver_.give_place();
    }
    __syncwarp();
  }
  // When there is room to pass it on: other blocks may be free sooner.
  __device__ int64_t claim() {
    if (sm90::is_one_lane()) giver_.place();
    __syncwarp();
    const int64_t claimed = ClaimingMachine::claim();
    ask();
    return claimed;
  }

 private:
  const RankView& view_;
  WalkedGiver& giver_;
};

// The body of the protocol's visits: passes them on.  One lane has the queue.
template <class Element, class Pace>
class PassedVisits {
 public:
  __device__ PassedVisits(const Params<Element, Pace>& params, WalkedGiver& giver) : p_(params), giver_(giver) {}

  __device__ void begin(const QueryTile& tile) { open(tile, sm90::VisitBegin::kEmpty); }
  __device__ void resume(const QueryTile& tile) { open(tile, sm90::VisitBegin::kResumed); }
  __device__ void attend(const QueryTile& tile, int step, const Segment& segment) {
    if (sm90::is_one_lane()) giver_.place().segments[num_segments_] = key_segment(tile, step, segment);
    ++num_segments_;
    __syncwarp();
  }
  __device__ void pause(const QueryTile&) { pass(sm90::VisitEnd::kPaused); }
  __device__ void finish(const QueryTile&) { pass(sm90::VisitEnd::kResult); }

 private:
  __device__ void open(const QueryTile& tile, sm90::VisitBegin begin) {
    num_segments_ = 0;
    if (sm90::is_one_lane()) {
      WalkedVisit& next = giver_.place();
      next.told = nullptr;
      next.visit.tile = {tile.batch, tile.head, static_cast<int>(tile.rows.first), static_cast<int>(tile.rows.count),
                         static_cast<int>(tile.position)};
      next.visit.begin = begin;
      next.visit.state = static_cast<int>(tile.number);
    }
    __syncwarp();
  }
  __device__ void pass(sm90::VisitEnd end) {
    if (sm90::is_one_lane()) {
      WalkedVisit& next = giver_.place();
      next.visit.end = end;
      next.num_segments = num_segments_;
      giver_.give_place();
    }
    __syncwarp();
  }

  __device__ sm90::KeySegment key_segment(const QueryTile& tile, int step, const Segment& segment) const {
    const Layout& layout = p_.layout;
    const KeyMaps& maps = step == 0 ? p_.own : layout.is_rail_step(step) ? p_.rail : p_.local;
    const MappedRows rows = mapped_rows(layout, step, tile.batch, segment.piece, segment.rows.first);
    return {&maps.k,
            &maps.v,
            rows.batch,
            tile.head / (layout.heads / layout.kv_heads),
            rows.row,
            static_cast<int>(segment.rows.count),
            static_cast<int>(segment.position)};
  }

  const Params<Element, Pace>& p_;
  WalkedGiver& giver_;
  int num_segments_ = 0;
};

// If keys will not come, the visits so far are all.
template <class Config, class Element, class Pace>
__device__ __forceinline__ void walk_visits(const Params<Element, Pace>& p, const Post& post, int worker,
                                            WalkedVisits& walked) {
  if (sm90::is_one_lane()) walked.prepare(/*takers=*/32);
  __syncwarp();
  sm90::begin_jobs<Config>();
  WalkedGiver giver(walked);
  WalkMachine machine(p.view, post, worker, giver);
  PassedVisits<Element, Pace> body(p, giver);
  compute(machine, p.layout, post, body);
  if (sm90::is_one_lane()) giver.end();
  __syncwarp();
  machine.close();
}

}  // namespace mk::attention
