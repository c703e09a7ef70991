// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_tell.cuh — the backward engine's tell job: a warp says, visit after visit, that the
// gradients of a tile of keys are there.  It may do other things in between.
//
// A caller gives a type `Teller` with
//
//   void done(int64_t id)     the visit's gradients are stored, visible to this warp
//   void passed(int64_t id)   all visits before a mark are done
#pragma once

#include "target/sm90/attention_backward_shared.cuh"

namespace mk::sm90 {

template <class Config, class Element, class Teller>
class AttentionTellJob {
 public:
  __device__ AttentionTellJob(AttentionBackwardShared<Config, Element>& shared, Teller& teller)
      : shared_(shared), teller_(teller) {}

  // Until the load job's last visit.  The whole warp calls this, and the others.
  __device__ void run() {
    while (tell_next()) {
    }
  }
  // Of those that the load job gives the first `count`, marks among them.
  __device__ void tell_first(uint32_t count) {
    while (at_ < count) tell_next();
  }
  // The next one, if it is done.
  __device__ void tell_if_done() {
    const auto at = place();
    if (__all_sync(0xffffffffu, ptx::mbarrier_test_wait_parity(&shared_.visit_done[at.slot], at.phase))) tell_next();
  }

 private:
  using Shared = AttentionBackwardShared<Config, Element>;
  __device__ auto place() const { return Cursor<Shared::kVisits>::at(at_); }

  // False: there are no more.
  __device__ bool tell_next() {
    const auto at = place();
    wait_phase(&shared_.visit_full[at.slot], at.phase);
    const NotedKeyVisit& noted = shared_.visits[at.slot];
    if (noted.blocks == NotedKeyVisit::kNoMore) return false;
    wait_phase(&shared_.visit_done[at.slot], at.phase);
    if (noted.blocks == NotedKeyVisit::kMark) {
      teller_.passed(noted.visit.id);
    } else {
      teller_.done(noted.visit.id);
    }
    __syncwarp();
    if (is_one_lane()) ptx::mbarrier_arrive(&shared_.visit_empty[at.slot]);
    ++at_;
    return true;
  }

  Shared& shared_;
  Teller& teller_;
  uint32_t at_ = 0;
};

}  // namespace mk::sm90
