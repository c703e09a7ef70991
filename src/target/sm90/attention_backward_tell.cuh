// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_tell.cuh — the backward engine's tell job: a warp says, visit after visit, that the
// gradients of a tile of keys are there.
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

  // Until the load job's last visit.  The whole warp calls this.
  __device__ void run() {
    for (Cursor<AttentionBackwardShared<Config, Element>::kVisits> at;; ++at) {
      wait_phase(&shared_.visit_full[at.slot], at.phase);
      const NotedKeyVisit& noted = shared_.visits[at.slot];
      if (noted.blocks == NotedKeyVisit::kNoMore) return;
      wait_phase(&shared_.visit_done[at.slot], at.phase);
      if (noted.blocks == NotedKeyVisit::kMark) {
        teller_.passed(noted.visit.id);
      } else {
        teller_.done(noted.visit.id);
      }
      __syncwarp();
      if (is_one_lane()) ptx::mbarrier_arrive(&shared_.visit_empty[at.slot]);
    }
  }

 private:
  AttentionBackwardShared<Config, Element>& shared_;
  Teller& teller_;
};

}  // namespace mk::sm90
