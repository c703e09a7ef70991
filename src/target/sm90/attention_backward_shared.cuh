// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_shared.cuh — what the jobs of a block share while they compute gradients of attention.
//
// With weights P = exp(score - lse), gradients of the output dO and delta = the row sums of dO·O:
//
//   dV += Pᵀ·dO     dS = P (dO·Vᵀ - delta)     dK += dSᵀ·Q     dQ += dS·K
//
//   job     who             waits for                               tells
//   load    a warp, TMA     visit_empty, keys_empty, q_empty,       visit_full, k_full, v_full, q_full, g_full
//                           g_empty, note_empty
//   maths   two warpgroups  visit_full, k_full, v_full, q_full,     visit_done, keys_empty, q_empty, g_empty, sum_full
//                           g_full, sum_empty
//   add     two lanes       sum_full; the turn of a block           sum_empty, note_empty; the turn
//   tell    a warp          visit_full, visit_done                  visit_empty; that gradients of keys are there
//
// Blocks of queries are visited by many tiles of keys, of many thread blocks, and each adds to the same sums in memory.
// Floating-point sums depend on their order, so additions take turns: the caller says whose turn it is
// (attention_backward_add.cuh).  What is told of visits goes in their order (attention_backward_tell.cuh).
#pragma once

#include <cstdint>

#include "target/sm90/attention_backward_config.h"
#include "target/sm90/attention_backward_visit.h"
#include "target/sm90/pipeline.cuh"

namespace mk::sm90 {

// Of a block of queries, in memory: what its scores and their gradients are less.
template <class Config>
struct RowNotes {
  float lse[Config::kQueries];  // times log2 e; +inf where there is no row, or none of its keys counts
  float delta[Config::kQueries];
};

// A visit, and how many blocks it has; or a mark between visits, which has an id only.
struct NotedKeyVisit {
  static constexpr int kNoMore = -1;
  static constexpr int kMark = -2;

  KeyVisit visit;
  int blocks = kNoMore;
};

// A block on its way, from the load job to the addition of its sums.
struct BlockNote {
  static constexpr int kNoMore = -1;

  SeenBlock seen;
  int block = kNoMore;
  int turn = 0;   // how many additions to the block come before
  int turns = 0;  // and how many there are
};

// Warps that run the add job: they take blocks in turn, since an addition takes longer than a block's products.
constexpr int kAdders = 2;

template <class Config, class Element>
struct AttentionBackwardShared {
  static_assert(registers_fit(Config::kJobRegisters, Config::kConsumers, Config::kMathsRegisters));
  static constexpr int kVisits = 2;  // on their way at the same time
  static constexpr int kNotes = 4;
  static_assert(kNotes % kAdders == 0);

  // In boxes of 64 columns, one behind the other, each with all rows.
  alignas(1024) Element k[Config::kKeys * Config::kHeadDim];
  alignas(1024) Element v[Config::kKeys * Config::kHeadDim];
  alignas(1024) Element q[Config::kStages][Config::kQueries * Config::kHeadDim];
  alignas(1024) Element g[Config::kGradientStages][Config::kQueries * Config::kHeadDim];  // dO
  // dS transposed, and P where consumers share keys: in boxes of 64 queries, each with all keys.
  static constexpr int kExchanged = Config::kShareKeys ? 2 : 1;
  static constexpr int kGradients = 0;
  static constexpr int kWeights = 1;
  alignas(1024) Element exchange[2][kExchanged][Config::kKeys * Config::kQueries];
  // Parts of dQ of each consumer: what threads hold, in their order.
  alignas(1024) float sums[Config::kSumBuffers][Config::kConsumers][Config::kPartFloats];
  alignas(128) RowNotes<Config> rows[Config::kStages];
  BlockNote notes[kNotes];
  NotedKeyVisit visits[kVisits];
  uint64_t visit_full[kVisits];
  uint64_t visit_done[kVisits];
  uint64_t visit_empty[kVisits];
  uint64_t note_full[kNotes];
  uint64_t note_empty[kNotes];
  uint64_t k_full;
  uint64_t v_full;
  uint64_t keys_empty;
  uint64_t q_full[Config::kStages];
  uint64_t q_empty[Config::kStages];
  uint64_t g_full[Config::kGradientStages];
  uint64_t g_empty[Config::kGradientStages];
  uint64_t sum_full[kAdders][Config::kConsumers];
  uint64_t sum_empty[Config::kSumBuffers][Config::kConsumers];
  // The caller's, zero at first: of each part, jobs that share records of faults (Sm90Machine).
  uint32_t failed[2];
};

// The load job's warp calls this, before begin_jobs.
template <class Config, class Element>
__device__ void prepare_attention_backward(AttentionBackwardShared<Config, Element>& shared) {
  constexpr int kWarps = Config::kConsumers * 4;
  prepare([&] {
    for (uint64_t& full : shared.visit_full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& done : shared.visit_done) ptx::mbarrier_init(&done, kWarps);
    for (uint64_t& empty : shared.visit_empty) ptx::mbarrier_init(&empty, 1);
    for (uint64_t& full : shared.note_full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& empty : shared.note_empty) ptx::mbarrier_init(&empty, 1);
    ptx::mbarrier_init(&shared.k_full, 1);
    ptx::mbarrier_init(&shared.v_full, 1);
    ptx::mbarrier_init(&shared.keys_empty, kWarps);
    for (uint64_t& full : shared.q_full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& empty : shared.q_empty) ptx::mbarrier_init(&empty, kWarps);
    for (uint64_t& full : shared.g_full) ptx::mbarrier_init(&full, 1);
    for (uint64_t& empty : shared.g_empty) ptx::mbarrier_init(&empty, kWarps);
    for (auto& of_adder : shared.sum_full) {
      for (uint64_t& full : of_adder) ptx::mbarrier_init(&full, 4);
    }
    for (auto& of_buffer : shared.sum_empty) {
      for (uint64_t& empty : of_buffer) ptx::mbarrier_init(&empty, 1);
    }
  });
}

}  // namespace mk::sm90
