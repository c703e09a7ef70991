// SPDX-License-Identifier: MIT
// target/sm90/attention_load.cuh — the attention engine's load job: a warp brings queries, keys and values by TMA.
//
// A caller whose segments come from elsewhere gives a type `Segments` with
//
//   bool is_here(int id)    looks whether a segment's rows are there, without waiting
//   bool wait(int id)       waits for them; false: they will not come
//   void landed(int id)     all of a segment that this visit reads has been read: it lies in shared memory
//
// The whole warp calls them.  They are asked once for a segment of a visit, before its first block, and told once, in
// the same order; a segment that no query of the tile sees is passed over.  After wait() returned false, nobody is
// called any more.  `landed` may come during a later visit, or in finish().
#pragma once

#include "target/sm90/attention_shared.cuh"

namespace mk::sm90 {

// All segments are here from the start.
struct SegmentsAreHere {
  __device__ bool is_here(int) { return true; }
  __device__ bool wait(int) { return true; }
  __device__ void landed(int) {}
};

template <class Config, class Element, class Segments = SegmentsAreHere>
class AttentionLoadJob {
 public:
  __device__ AttentionLoadJob(AttentionShared<Config, Element>& shared, Segments& segments)
      : shared_(shared), segments_(segments) {
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
      come(segment.id);
      int key = range.begin + (count - 1) * Config::kTileN;
      load_keys(segment, key, BlockMask::of(mask, visit.tile, segment, key));
      if (!has_queries) load_queries(q, visit.tile);
      has_queries = true;
#pragma unroll 1
      for (; key > range.begin; key -= Config::kTileN) {
        const int next = key - Config::kTileN;
        load_keys(segment, next, BlockMask::of(mask, visit.tile, segment, next));
        load_values(segment, key);
        settle();
      }
      load_values(segment, key);
      await(segment.id);
    }
  }

  // There are no more visits.
  __device__ void finish() {
    give({});
    settle_now();
  }

 private:
  __device__ void give(const NotedVisit& visit) {
    wait_phase(&shared_.visit_empty[visit_.slot], visit_.phase ^ 1);
    if (is_one_lane()) {
      shared_.visits[visit_.slot] = visit;
      ptx::mbarrier_arrive(&shared_.visit_full[visit_.slot]);
    }
    __syncwarp();
    ++visit_;
  }

  // ---- segments ------------------------------------------------------------------------------------

  __device__ void come(int id) {
    if (id == KeySegment::kIsHere || is_void_ || segments_.is_here(id)) return;
    settle_now();
    if (segments_.wait(id)) return;
    is_void_ = true;
    if (is_one_lane()) shared_.is_void = 1;  // the next arrival at a full barrier releases it
    __syncwarp();
  }

  // The blocks loaded last were a segment's last: once they have landed, its caller is told.
  __device__ void await(int id) {
    settle_now();
    landing_ = is_void_ ? KeySegment::kIsHere : id;
    last_k_ = before(k_);
    last_v_ = before(v_);
  }
  __device__ static Cursor<Config::kStages> before(Cursor<Config::kStages> cursor) {
    if (cursor.slot-- == 0) cursor = {Config::kStages - 1, cursor.phase ^ 1};
    return cursor;
  }

  __device__ void settle() {
    if (landing_ != KeySegment::kIsHere && has_completed(shared_.k_full, last_k_) &&
        has_completed(shared_.v_full, last_v_)) {
      tell();
    }
  }
  __device__ void settle_now() {
    if (landing_ == KeySegment::kIsHere) return;
    wait_phase(&shared_.k_full[last_k_.slot], last_k_.phase);
    wait_phase(&shared_.v_full[last_v_.slot], last_v_.phase);
    tell();
  }
  __device__ void tell() {
    __syncwarp();
    segments_.landed(landing_);
    landing_ = KeySegment::kIsHere;
  }
  __device__ static bool has_completed(uint64_t* full, const Cursor<Config::kStages>& at) {
    return __all_sync(0xffffffffu, ptx::mbarrier_test_wait_parity(&full[at.slot], at.phase)) != 0;
  }

  // ---- copies --------------------------------------------------------------------------------------

  __device__ void load_queries(const CUtensorMap* q, const QueryTile& tile) {
    wait_phase(&shared_.q_empty[q_.slot], q_.phase ^ 1);
    load_boxes<Config::kTileM>(shared_.q[q_.slot], &shared_.q_full[q_.slot], q, tile.row, tile.head, tile.batch);
    ++q_;
  }
  __device__ void load_keys(const KeySegment& segment, int key, const BlockMask& mask) {
    wait_phase(&shared_.k_empty[k_.slot], k_.phase ^ 1);
    settle_before_reuse(last_k_.slot == k_.slot);
    if (is_one_lane()) shared_.masks[k_.slot] = mask;
    __syncwarp();
    load_boxes<Config::kTileN>(shared_.k[k_.slot], &shared_.k_full[k_.slot], segment.k, segment.row + key, segment.head,
                               segment.batch);
    ++k_;
  }
  __device__ void load_values(const KeySegment& segment, int key) {
    wait_phase(&shared_.v_empty[v_.slot], v_.phase ^ 1);
    settle_before_reuse(last_v_.slot == v_.slot);
    load_boxes<Config::kTileN>(shared_.v[v_.slot], &shared_.v_full[v_.slot], segment.v, segment.row + key, segment.head,
                               segment.batch);
    ++v_;
  }
  // A full barrier that is armed again no longer says what had landed.
  __device__ void settle_before_reuse(bool is_reused) {
    if (is_reused) settle_now();
  }

  template <int kRows>
  __device__ void load_boxes(Element* to, uint64_t* full, const CUtensorMap* map, int row, int head, int batch) {
    if (is_one_lane()) {
      if (is_void_) {
        ptx::mbarrier_arrive(full);
      } else {
        constexpr uint32_t kBytes = 2 * kRows * Config::kHeadDim;
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, kBytes);
#pragma unroll
        for (int box = 0; box < Config::kBoxes; ++box) {
          const int32_t from[4] = {box * Config::kBox, row, head, batch};
          ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to + box * kRows * Config::kBox, map, from,
                                    full);
        }
      }
    }
    __syncwarp();
  }

  AttentionShared<Config, Element>& shared_;
  Segments& segments_;
  Cursor<kNotedVisits> visit_;
  Cursor<Config::kQueryBuffers> q_;
  Cursor<Config::kStages> k_;
  Cursor<Config::kStages> v_;
  Cursor<Config::kStages> last_k_;  // of the segment that lands
  Cursor<Config::kStages> last_v_;
  int landing_ = KeySegment::kIsHere;
  bool is_void_ = false;
};

}  // namespace mk::sm90
