// SPDX-License-Identifier: MIT
// target/sm90/attention_load.cuh — the attention engine's load job: a warp brings queries, keys and values by TMA.
//
// What it loads is there: a caller that has to wait for keys does so before.  A caller that hands them back marks how
// far the job has come; once all before the mark has landed in shared memory, it is told.  The caller's type `Told` has
//
//   void landed()    once for each mark, in order; the whole warp calls it
//
// It comes during a later visit, when stages are loaded again, or in settle().  So who has nothing more to load for a
// while settles.
#pragma once

#include "target/sm90/attention_shared.cuh"

namespace mk::sm90 {

struct NobodyIsTold {
  __device__ void landed() {}
};

template <class Config, class Element, class Told = NobodyIsTold>
class AttentionLoadJob {
 public:
  __device__ AttentionLoadJob(AttentionShared<Config, Element>& shared, Told& told) : shared_(shared), told_(told) {
    prepare_attention(shared);
    prepared<Config>();
  }

  // After the caller's own preparations, before the first visit.  The whole warp calls this, and what comes after it.
  __device__ void meet() { wait_for_prepared<Config>(); }

  // A visit of the tile at `q` to segments 0 … num_segments - 1, which segment_of(i) returns.
  template <class SegmentOf>
  __device__ void load(const CUtensorMap* q, const AttentionVisit& visit, const AttentionMask& mask, int num_segments,
                       const SegmentOf& segment_of) {
    int blocks = 0;
#pragma unroll 1
    for (int i = 0; i < num_segments; ++i) {
      blocks += seen_keys(mask, visit.tile, segment_of(i)).template blocks<Config::kTileN>();
    }
    give({visit, blocks});
    bool has_queries = false;
#pragma unroll 1
    for (int i = 0; i < num_segments; ++i) {
      const KeySegment segment = segment_of(i);
      const KeyRange range = seen_keys(mask, visit.tile, segment);
      const int count = range.template blocks<Config::kTileN>();
      if (count == 0) continue;
      int key = range.begin + (count - 1) * Config::kTileN;
      load_keys(segment, key, BlockMask::of(mask, visit.tile, segment, key));
      if (!has_queries) load_queries(q, visit.tile);
      has_queries = true;
#pragma unroll 1
      for (; key > range.begin; key -= Config::kTileN) {
        const int next = key - Config::kTileN;
        load_keys(segment, next, BlockMask::of(mask, visit.tile, segment, next));
        load_values(segment, key);
      }
      load_values(segment, key);
    }
  }

  // The caller is told when all that was loaded so far has landed; first of the mark before.
  __device__ void mark() {
    settle();
    until_told_ = Config::kStages;
  }

  // Waits until all that was loaded has landed, if there is a mark.
  __device__ void settle() {
    if (until_told_ == 0) return;
#pragma unroll 1
    for (int slot = 0; slot < Config::kStages; ++slot) {
      wait_phase(&shared_.k_full[slot], last_phase(keys_, slot));
      wait_phase(&shared_.v_full[slot], last_phase(values_, slot));
    }
    tell();
  }

  // There are no more visits.
  __device__ void finish() {
    give({});
    settle();
  }

 private:
  __device__ void give(const NotedVisit& visit) {
    const auto to = Cursor<kNotedVisits>::at(visits_++);
    wait_phase(&shared_.visit_empty[to.slot], to.phase ^ 1);
    if (is_one_lane()) {
      shared_.visits[to.slot] = visit;
      ptx::mbarrier_arrive(&shared_.visit_full[to.slot]);
    }
    __syncwarp();
  }

  // ---- marks ---------------------------------------------------------------------------------------

  // Of the last load into a slot; a slot that was never loaded counts as landed.
  __device__ static uint32_t last_phase(uint32_t loaded, int slot) {
    const auto next = Cursor<Config::kStages>::at(loaded);
    return slot < next.slot ? next.phase : next.phase ^ 1;
  }
  // A block of values was loaded.  A slot is loaded again when it has been read, and keys are loaded before their
  // values: after so many blocks as there are stages, all that was there before has been read.
  __device__ void count_to_mark() {
    if (until_told_ == 0 || --until_told_ > 0) return;
    tell();
  }
  __device__ void tell() {
    __syncwarp();
    until_told_ = 0;
    told_.landed();
  }

  // ---- copies --------------------------------------------------------------------------------------

  __device__ void load_queries(const CUtensorMap* q, const QueryTile& tile) {
    const auto to = Cursor<Config::kQueryBuffers>::at(queries_++);
    wait_phase(&shared_.q_empty[to.slot], to.phase ^ 1);
    load_boxes<Config::kTileM>(shared_.q[to.slot], &shared_.q_full[to.slot], q, tile.row, tile.head, tile.batch);
  }
  __device__ void load_keys(const KeySegment& segment, int key, const BlockMask& mask) {
    const auto to = Cursor<Config::kStages>::at(keys_++);
    wait_phase(&shared_.k_empty[to.slot], to.phase ^ 1);
    if (is_one_lane()) shared_.masks[to.slot] = mask;
    __syncwarp();
    load_boxes<Config::kTileN>(shared_.k[to.slot], &shared_.k_full[to.slot], segment.k, segment.row + key, segment.head,
                               segment.batch);
  }
  __device__ void load_values(const KeySegment& segment, int key) {
    const auto to = Cursor<Config::kStages>::at(values_++);
    wait_phase(&shared_.v_empty[to.slot], to.phase ^ 1);
    load_boxes<Config::kTileN>(shared_.v[to.slot], &shared_.v_full[to.slot], segment.v, segment.row + key, segment.head,
                               segment.batch);
    count_to_mark();
  }

  template <int kRows>
  __device__ void load_boxes(Element* to, uint64_t* full, const CUtensorMap* map, int row, int head, int batch) {
    if (is_one_lane()) {
      constexpr uint32_t kBytes = 2 * kRows * Config::kHeadDim;
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, kBytes);
#pragma unroll
      for (int box = 0; box < Config::kBoxes; ++box) {
        const int32_t from[4] = {box * Config::kBox, row, head, batch};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to + box * kRows * Config::kBox, map, from,
                                  full);
      }
    }
    __syncwarp();
  }

  AttentionShared<Config, Element>& shared_;
  Told& told_;
  // How many there were: one register each, where a Cursor takes two.
  uint32_t visits_ = 0;
  uint32_t queries_ = 0;
  uint32_t keys_ = 0;
  uint32_t values_ = 0;
  int until_told_ = 0;  // blocks to load until the mark has landed for sure; 0: there is none
};

}  // namespace mk::sm90
