// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_load.cuh — the backward engine's load job: a warp brings a tile of keys and values,
// then queries, gradients of the output, and what is noted of their rows, block by block.
//
// Blocks of a segment are visited from the last to the first, and each for all heads of its group.  With a causal mask
// a later tile has fewer of them, and all begin together: so tiles come to a block one after the other, in their order
// (attention_backward_add.cuh).
#pragma once

#include "target/sm90/attention_backward_shared.cuh"

namespace mk::sm90 {

// A tile's turn among the additions to a block, and how many there are.
struct BlockTurn {
  int turn = 0;
  int turns = 0;
};

// A caller that finds its next visit while the last blocks of one are loaded has so many blocks' time.
constexpr int kBlocksAhead = 6;
struct NothingAhead {
  __device__ void operator()() const {}
};

// Where queries are: maps of Q and of dO, and the notes of all blocks.
template <class Config>
struct QueryRows {
  const CUtensorMap* q = nullptr;
  const CUtensorMap* g = nullptr;
  const RowNotes<Config>* notes = nullptr;
};

template <class Config, class Element>
class AttentionBackwardLoadJob {
 public:
  __device__ explicit AttentionBackwardLoadJob(AttentionBackwardShared<Config, Element>& shared) : shared_(shared) {
    prepare_attention_backward(shared);
    prepared<Config>();
  }

  // After the caller's own preparations, before the first visit.  The whole warp calls this, and what comes after it.
  __device__ void meet() { wait_for_prepared<Config>(); }

  // A visit of the tile by segments 0 … num_segments - 1, which segment_of(i) returns: those of the first of `heads`
  // heads, each of which has as many blocks as `blocks_of_head`.  turn_of(block), for blocks of the first head, is the
  // tile's turn to add to a block; lanes call it for a block each.  ahead() is called when few blocks are left.
  template <class SegmentOf, class TurnOf, class Ahead = NothingAhead>
  __device__ void load(const QueryRows<Config>& rows, const KeyVisit& visit, const AttentionMask& mask, int heads,
                       int blocks_of_head, int num_segments, const SegmentOf& segment_of, const TurnOf& turn_of,
                       const Ahead& ahead = {}) {
    int blocks = 0;
#pragma unroll 1
    for (int i = 0; i < num_segments; ++i) {
      blocks += heads * seeing_blocks<Config::kQueries>(mask, visit.tile, segment_of(i)).count();
    }
    give({visit, blocks});
    if (blocks <= kBlocksAhead) ahead();
    if (blocks == 0) return;
    load_tile(visit.tile);
#pragma unroll 1
    for (int i = 0; i < num_segments; ++i) {
      const QuerySegment segment = segment_of(i);
      const BlockRange range = seeing_blocks<Config::kQueries>(mask, visit.tile, segment);
      BlockTurn of_lane;
#pragma unroll 1
      for (int block = range.end - 1; block >= range.begin; --block) {
        const int lane = (range.end - 1 - block) % 32;
        if (lane == 0) of_lane = turn_of(segment.first_block + max_of(range.begin, block - this_lane()));
        const BlockTurn turn{__shfl_sync(0xffffffffu, of_lane.turn, lane),
                             __shfl_sync(0xffffffffu, of_lane.turns, lane)};
        const SeenBlock seen = SeenBlock::of(mask, visit.tile, segment, block * Config::kQueries);
#pragma unroll 1
        for (int head = 0; head < heads; ++head) {
          const int number = segment.first_block + head * blocks_of_head + block;
          if (--blocks == kBlocksAhead) ahead();
          note({seen, number, turn.turn, turn.turns});
          load_block(rows, segment, segment.head + head, number, block);
        }
      }
    }
  }

  // The tell job comes by when all visits before are done.
  __device__ void mark(int64_t id) { give({{.id = id}, NotedKeyVisit::kMark}); }

  // There are no more visits.
  __device__ void finish() {
    for (int adder = 0; adder < kAdders; ++adder) note({});
    give({});
  }

 private:
  __device__ static int this_lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ void give(const NotedKeyVisit& visit) {
    wait_phase(&shared_.visit_empty[visit_.slot], visit_.phase ^ 1);
    if (is_one_lane()) {
      shared_.visits[visit_.slot] = visit;
      ptx::mbarrier_arrive(&shared_.visit_full[visit_.slot]);
    }
    __syncwarp();
    ++visit_;
  }
  // The maths job, which waits for the block's queries, reads it then.
  __device__ void note(const BlockNote& note) {
    wait_phase(&shared_.note_empty[note_.slot], note_.phase ^ 1);
    if (is_one_lane()) {
      shared_.notes[note_.slot] = note;
      ptx::mbarrier_arrive(&shared_.note_full[note_.slot]);
    }
    __syncwarp();
    ++note_;
  }

  __device__ void load_tile(const KeyTile& tile) {
    wait_phase(&shared_.keys_empty, tiles_ ^ 1);
    if (is_one_lane()) {
      load_boxes<Config::kKeys>(shared_.k, &shared_.k_full, tile.k, tile.row, tile.head, tile.batch, 0);
      load_boxes<Config::kKeys>(shared_.v, &shared_.v_full, tile.v, tile.row, tile.head, tile.batch, 0);
    }
    __syncwarp();
    tiles_ ^= 1;
  }

  __device__ void load_block(const QueryRows<Config>& rows, const QuerySegment& segment, int head, int number,
                             int block) {
    constexpr uint32_t kNoteBytes = sizeof(RowNotes<Config>);
    const int row = segment.row + block * Config::kQueries;
    wait_phase(&shared_.q_empty[stage_.slot], stage_.phase ^ 1);
    if (is_one_lane()) {
      uint64_t* const full = &shared_.q_full[stage_.slot];
      load_boxes<Config::kQueries>(shared_.q[stage_.slot], full, rows.q, row, head, segment.batch, kNoteBytes);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, &shared_.rows[stage_.slot], rows.notes + number,
                         kNoteBytes, full);
    }
    __syncwarp();
    const auto stage = gradient_stage();
    wait_phase(&shared_.g_empty[stage.slot], stage.phase ^ 1);
    if (is_one_lane()) {
      load_boxes<Config::kQueries>(shared_.g[stage.slot], &shared_.g_full[stage.slot], rows.g, row, head, segment.batch,
                                   0);
    }
    __syncwarp();
    ++stage_;
  }

  // Registers are full, so it follows from the stage of the queries: the same, or the only one in its turn.
  __device__ auto gradient_stage() const {
    if constexpr (Config::kGradientStages == Config::kStages) {
      return stage_;
    } else {
      static_assert(Config::kGradientStages == 1 && Config::kStages == 2);
      return Cursor<1>{0, static_cast<uint32_t>(stage_.slot)};
    }
  }

  // One lane; `more` bytes come with them.
  template <int kRows>
  __device__ static void load_boxes(Element* to, uint64_t* full, const CUtensorMap* map, int row, int head, int batch,
                                    uint32_t more) {
    constexpr uint32_t kBytes = 2 * kRows * Config::kHeadDim;
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, kBytes + more);
#pragma unroll
    for (int box = 0; box < Config::kBoxes; ++box) {
      const int32_t from[4] = {box * Config::kBox, row, head, batch};
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to + box * kRows * Config::kBox, map, from,
                                full);
    }
  }

  AttentionBackwardShared<Config, Element>& shared_;
  Cursor<AttentionBackwardShared<Config, Element>::kVisits> visit_;
  Cursor<AttentionBackwardShared<Config, Element>::kNotes> note_;
  Cursor<Config::kStages> stage_;
  uint32_t tiles_ = 0;
};

}  // namespace mk::sm90
