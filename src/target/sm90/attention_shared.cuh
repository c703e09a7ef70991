// SPDX-License-Identifier: MIT
// target/sm90/attention_shared.cuh — what the jobs of a block share while they compute softmax(Q·Kᵀ)·V.
//
//   job     who                               waits for                           tells
//   load    a warp                            q_empty, k_empty, v_empty; visits   visits; q_full, k_full, v_full, by
//   TMA maths   two or three warpgroups           visits; q_full, k_full, v_full      q_empty, k_empty, v_empty; visits
//
// Only the load job is given the caller's visits and segments.  It passes on what the others need: a visit through a
// queue, and with every block of keys what the mask leaves of it.  So a caller may claim tiles one by one, and jobs
// cannot disagree.  The load job runs ahead of the maths by the stages there are, over visits too.
//
// Each consumer writes its own rows of the output straight from registers (attention_output.cuh).
//
// A caller whose keys will not come gives no more visits.  So every job reaches its end, and what is in hand is stored.
#pragma once

#include <cstdint>

#include "target/sm90/attention_config.h"
#include "target/sm90/attention_visit.h"
#include "target/sm90/pipeline.cuh"

namespace mk::sm90 {

// A visit, and how many blocks of keys it has.
struct NotedVisit {
  static constexpr int kNoMore = -1;

  AttentionVisit visit;
  int blocks = kNoMore;
};
constexpr int kNotedVisits = 4;  // on their way at the same time

template <class Config, class Element>
struct AttentionShared {
  static_assert(registers_fit(Config::kJobRegisters, Config::kConsumers, Config::kMathsRegisters));

  // In boxes of 64 columns, one behind the other, each with all rows.
  alignas(1024) Element q[Config::kQueryBuffers][Config::kTileM * Config::kHeadDim];
  alignas(1024) Element k[Config::kStages][Config::kTileN * Config::kHeadDim];
  alignas(1024) Element v[Config::kStages][Config::kTileN * Config::kHeadDim];
  uint64_t q_full[Config::kQueryBuffers];
  uint64_t q_empty[Config::kQueryBuffers];
  uint64_t k_full[Config::kStages];
  uint64_t k_empty[Config::kStages];
  uint64_t v_full[Config::kStages];
  uint64_t v_empty[Config::kStages];
  BlockMask masks[Config::kStages];  // of the blocks in k
  NotedVisit visits[kNotedVisits];
  uint64_t visit_full[kNotedVisits];
  uint64_t visit_empty[kNotedVisits];
};

// The load job's warp calls this, before begin_jobs.
template <class Config, class Element>
__device__ void prepare_attention(AttentionShared<Config, Element>& shared) {
  constexpr int kWarps = Config::kConsumers * 4;
  prepare([&] {
    for (uint64_t& full : shared.q_full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& empty : shared.q_empty) ptx::mbarrier_init(&empty, kWarps);
    for (uint64_t& full : shared.k_full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& empty : shared.k_empty) ptx::mbarrier_init(&empty, kWarps);
    for (uint64_t& full : shared.v_full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& empty : shared.v_empty) ptx::mbarrier_init(&empty, kWarps);
    for (uint64_t& full : shared.visit_full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& empty : shared.visit_empty) ptx::mbarrier_init(&empty, Config::kConsumers * 128);
  });
}

}  // namespace mk::sm90
