// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_jobs.cuh — the parts of compute_gradients as jobs of a block
// (ring_attention_backward_protocol.h, target/sm90/attention_backward_shared.cuh).
//
//   walk     a warp        finds tiles of keys, and waits for them and for room for their gradients; tells of gradients
//                          and of keys that have been read (ring_attention_backward_walk.cuh)
//   load     a warp        loads tiles, and the blocks that see them
//   add      two lanes     wait for the turn of a tile to add to a block, and pass it on
//   rows     each warp of  notes queries, and turns, before the first tile; after the last one makes results of blocks
//            the consumers  and sinks
#pragma once

#include "core/crew.h"
#include "ops/attention/ring_attention_backward_params.cuh"
#include "ops/attention/ring_attention_backward_protocol.h"
#include "target/sm90/attention_backward_add.cuh"
#include "target/sm90/attention_backward_load.cuh"
#include "target/sm90/attention_backward_rows.cuh"
#include "target/sm90/sm90_machine.cuh"

namespace mk::attention {

// ---- load --------------------------------------------------------------------------------------------

template <class Config, class Element, class Pace>
__device__ __forceinline__ void load_keys(const BackwardParams<Element, Pace>& p,
                                          BackwardBlockShared<Config, Element>& shared) {
  const BackwardLayout& layout = p.layout;
  if (sm90::is_one_lane()) {
    for (const CUtensorMap* map : {&p.q, &p.g, &p.own.k, &p.own.v}) sm90::prefetch_tensor_map(map);
  }
  sm90::AttentionBackwardLoadJob<Config, Element> job(shared);
  job.meet();
  const sm90::QueryRows<Config> rows{&p.q, &p.g,
                                     p.template resolve<const sm90::RowNotes<Config>>(layout.notes_at(p.view.rank, 0))};
  const auto ahead = [&] {
    if (sm90::is_one_lane()) sm90::ptx::mbarrier_arrive(&shared.ahead);
    __syncwarp();
  };
  sm90::TileTaker taker(shared.walked);
  MK_LOOP
  while (const WalkedKeys* const next = taker.look()) {
    if (next->is_mark()) {
      job.mark(next->visit.id);
    } else {
      const auto turn_of = [&](int block) {
        const int* const words = next->turns + int64_t{block} * layout.turn_words();
        return sm90::BlockTurn{__ldcg(words) + next->index, __ldcg(words + next->to_all)};
      };
      job.load(
          rows, next->visit, p.mask, layout.heads / layout.kv_heads, layout.tiles_of_head(p.view.rank), layout.pieces(),
          [&](int i) { return next->segments[i]; }, turn_of, ahead);
    }
    taker.free();
  }
  job.finish();
}

// ---- add ---------------------------------------------------------------------------------------------

using AddMachine = sm90::Sm90Machine<SoloCrew>;

template <class Element, class Pace>
struct Turns {
  const BackwardParams<Element, Pace>& p;
  AddMachine& machine;

  __device__ bool wait(const sm90::BlockNote& note) const {
    return before_addition(machine, p.layout, note.block, note.turn, note.turns);
  }
  __device__ void done(const sm90::BlockNote& note) const { after_addition(machine, p.layout, note.block); }
};

template <class Config, class Element, class Pace>
__device__ __forceinline__ void add_queries(const BackwardParams<Element, Pace>& p, const Post& post, int worker,
                                            sm90::AttentionBackwardShared<Config, Element>& shared, int adder) {
  sm90::begin_jobs<Config>();
  AddMachine machine(p.view, post, worker, {}, sm90::NoPace(), /*part=*/1, &shared.failed[1]);
  Turns<Element, Pace> turns{p, machine};
  float* const sums = p.template resolve<float>(p.layout.query_sums_at(p.view.rank, 0));
  sm90::AttentionAddJob<Config, Element, Turns<Element, Pace>>(shared, sums, turns, adder).run();
}

// ---- rows --------------------------------------------------------------------------------------------

// What the protocol asks for where a tile is not in hand.
template <class Config, class Element, class Pace>
class RowsBody {
 public:
  __device__ explicit RowsBody(const BackwardParams<Element, Pace>& params) : p_(params) {}

  __device__ void note(const QueryBlock& block) {
    const int64_t head = int64_t{block.batch} * p_.layout.heads + block.head;
    sm90::note_rows<Config, Element>(
        {p_.first_of(p_.o, block), p_.o.strides.row}, {p_.first_of(p_.dout, block), p_.dout.strides.row},
        p_.lse + head * p_.layout.rows + block.rows.first, static_cast<int>(block.rows.count), notes()[block.number]);
    note_turns(block);
  }
  __device__ void finish_queries(const QueryBlock& block) {
    const float* const sums = p_.template resolve<const float>(p_.layout.query_sums_at(p_.view.rank, block.number));
    sm90::store_query_gradients<Config>(sums, p_.scale, p_.first_of(p_.dq, block), p_.dq.strides.row,
                                        static_cast<int>(block.rows.count));
  }
  // Each lane some rows, over batches and blocks in their order; then lanes in pairs.
  __device__ void finish_sink(int head) {
    if (p_.dsink == nullptr) return;
    const BackwardLayout& layout = p_.layout;
    float sum = 0;
    MK_LOOP
    for (int batch = 0; batch < layout.batch; ++batch) {
      const int first = layout.first_block(p_.view.rank, batch, head, 0);
      const int end = first + layout.tiles_of_head(p_.view.rank);
#pragma unroll 4
      for (int number = first; number < end; ++number) {
        sum += sm90::sink_part<Config>(notes()[number], p_.sink[head]);
      }
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x % 32 == 0) p_.dsink[head] = -sum;
  }

 private:
  // A lane for each step: to compute it for each tile would take longer than the tile's products.
  __device__ void note_turns(const QueryBlock& block) {
    const BackwardLayout& layout = p_.layout;
    int* const words = p_.template resolve<int>(layout.turns_at(p_.view.rank, block.number));
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int before = 0;
    MK_LOOP
    for (int first = 0; first < layout.num_steps(); first += 32) {
      const int step = first + lane;
      const int own = step < layout.num_steps() ? layout.turns_in(p_.view.rank, block, step) : 0;
      int up_to = own;
#pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, up_to, lanes);
        if (lane >= lanes) up_to += other;
      }
      MK_LOOP
      for (int piece = 0; piece < layout.pieces() && step < layout.num_steps(); ++piece) {
        words[step * layout.pieces() + piece] =
            before + up_to - own + layout.turn_in_step(p_.view.rank, block, step, piece);
      }
      before += __shfl_sync(0xffffffffu, up_to, 31);
    }
    if (lane == 0) words[layout.turn_words() - 1] = before;
  }

  __device__ sm90::RowNotes<Config>* notes() const {
    return p_.template resolve<sm90::RowNotes<Config>>(p_.layout.notes_at(p_.view.rank, 0));
  }

  const BackwardParams<Element, Pace>& p_;
};

// Calls part(machine, post, body) with the post of each warp of the consumers.  The block's own is found again, so that
// the maths job in between has the registers.
template <class Config, class Element, class Pace, class Part>
__device__ __forceinline__ void with_rows(const BackwardParams<Element, Pace>& p,
                                          sm90::AttentionBackwardShared<Config, Element>& shared, const Part& part) {
  constexpr int kWarps = 4 * Config::kConsumers;
  const Roster& roles = p.layout.roles;
  const int compute = sm90::block_again() - sm90::communication_blocks(roles);
  const int warp = sm90::thread_again() / 32 - 4;
  const Post post{BackwardLayout::kCompute, compute, roles.num_compute()};
  sm90::Sm90Machine<sm90::WarpCrew> machine(p.view, post, roles.compute_worker(compute), {}, sm90::NoPace(), 0,
                                            &shared.failed[0]);
  RowsBody<Config, Element, Pace> body(p);
  part(machine, Post{post.role, compute * kWarps + warp, post.count * kWarps}, body);
}

template <class Config, class Element, class Pace>
__device__ __forceinline__ void compute_with_keys(const BackwardParams<Element, Pace>& p,
                                                  sm90::AttentionBackwardShared<Config, Element>& shared) {
  sm90::begin_jobs<Config>();
  if (!Config::kNotesFirst) sm90::take_registers<Config::kMathsRegisters>();
  with_rows(p, shared, [&](auto& machine, const Post& own, auto& body) { note_blocks(machine, p.layout, own, body); });
  if (Config::kNotesFirst) sm90::take_registers<Config::kMathsRegisters>();
  sm90::AttentionBackwardMathsJob<Config, Element>(shared, p.gradients, p.score_scale).run();
  with_rows(p, shared,
            [&](auto& machine, const Post& own, auto& body) { finish_blocks(machine, p.layout, own, body); });
}

}  // namespace mk::attention
