// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_backward_walk.cuh — a warp of a compute block takes the steps of the backward protocol:
// it finds tiles of keys ahead of their loads, and tells of those that are done.
//
// To find the next tile takes microseconds, and its keys may not be here yet.  A tile is claimed when few blocks of the
// one before are left to load, not sooner: others wait for its turns.
//
// The warp must not keep what others wait for.  While it waits for the load job it tells of each tile that is done, and
// before it waits for anybody else, of all that it has passed on.
#pragma once

#include "ops/attention/ring_attention_backward_params.cuh"
#include "ops/attention/ring_attention_backward_protocol.h"
#include "ops/attention/ring_attention_maps.cuh"
#include "target/sm90/attention_backward_tell.cuh"
#include "target/sm90/claiming_machine.cuh"

namespace mk::attention {

// ---- what is told --------------------------------------------------------------------------------------

// Called from many places, so they are functions of their own.
template <class Element, class Pace>
struct Teller {
  const BackwardParams<Element, Pace>& p;
  sm90::Sm90Machine<sm90::WarpCrew, Pace>& machine;

  __device__ static int step_of(int64_t id) { return static_cast<int>(id >> 32); }
  __device__ __noinline__ void done(int64_t id) const {
    const int64_t number = id & 0xffffffff;
    after_tile(machine, p.layout, p.layout.key_tile_at(p.view.rank, step_of(id), number), step_of(id));
  }
  __device__ __noinline__ void passed(int64_t id) const { after_step(machine, p.layout, step_of(id)); }
};

// ---- what is passed to the load job ----------------------------------------------------------------------

template <class Config, class Element, class Pace>
class KeyPasser {
 public:
  using Tell = sm90::AttentionTellJob<Config, Element, Teller<Element, Pace>>;

  __device__ KeyPasser(const BackwardParams<Element, Pace>& params, BackwardBlockShared<Config, Element>& shared,
                       Tell& tell)
      : p_(params), shared_(shared), tell_(tell), giver_(shared.walked) {}

  // Until the load job asks for the next tile.
  __device__ void wait_until_asked() {
    if (tiles_ == 0) return;
    tell_until([&] { return sm90::ptx::mbarrier_try_wait_parity(&shared_.ahead, (tiles_ - 1) & 1); });
  }
  __device__ void pass(const KeyTile& tile, int step) {
    const BackwardLayout& layout = p_.layout;
    const int rank = p_.view.rank;
    const int first_turn = step * layout.pieces() + tile.piece;
    tell_until([&] { return giver_.has_place(); });
    if (sm90::is_one_lane()) {
      WalkedKeys& next = giver_.place();
      next.visit = key_visit(tile, step);
      next.turns = p_.template resolve<const int>(layout.turns_at(rank, 0)) + first_turn;
      next.to_all = layout.turn_words() - 1 - first_turn;
      next.index = tile.index;
    }
    __syncwarp();
    MK_LOOP
    for (int i = 0; i < layout.pieces(); ++i) {  // in the order of for_each_block
      const int piece = layout.pieces() - 1 - i;
      const Range positions = layout.queries_for(rank, piece, tile);
      const int head = tile.kv_head * (layout.heads / layout.kv_heads);
      const int before = positions.count > 0 ? layout.block_of(rank, piece, positions.first) : 0;
      if (sm90::is_one_lane()) {
        giver_.place().segments[i] = {tile.batch,
                                      head,
                                      static_cast<int>(layout.row_of(rank, piece, positions.first)),
                                      static_cast<int>(positions.count),
                                      static_cast<int>(positions.first),
                                      layout.first_block(rank, tile.batch, head, piece) + before};
      }
      __syncwarp();
    }
    give();
    ++tiles_;
  }
  // All tiles before are done when the teller comes by.
  __device__ void mark(int step) {
    tell_until([&] { return giver_.has_place(); });
    if (sm90::is_one_lane()) giver_.place().visit = {.id = int64_t{step} << 32};
    __syncwarp();
    give();
  }
  __device__ void tell_all() { tell_.tell_first(given_); }
  __device__ void end() {
    tell_until([&] { return giver_.has_place(); });
    if (sm90::is_one_lane()) giver_.end();
    __syncwarp();
    tell_all();
  }

 private:
  // One lane has the queue, and looks.
  template <class IsThere>
  __device__ void tell_until(const IsThere& is_there) {
    MK_LOOP
    while (!__any_sync(0xffffffffu, sm90::is_one_lane() && is_there())) tell_.tell_if_done();
  }
  __device__ void give() {
    if (sm90::is_one_lane()) giver_.give_place();
    __syncwarp();
    ++given_;
  }
  __device__ sm90::KeyVisit key_visit(const KeyTile& tile, int step) const {
    const BackwardLayout& layout = p_.layout;
    const KeyMaps& maps = step == 0 ? p_.own : layout.is_rail_step(step) ? p_.rail : p_.local;
    const MappedRows rows = mapped_rows(layout, step, tile.batch, tile.piece, tile.rows.first);
    sm90::KeyVisit visit{.tile = {&maps.k, &maps.v, rows.batch, tile.kv_head, rows.row,
                                  static_cast<int>(tile.rows.count), static_cast<int>(tile.position)},
                         .id = int64_t{step} << 32 | tile.number};
    if (layout.collects()) {
      const HeadRow first{tile.batch, tile.kv_head, tile.rows.first};
      visit.dk = p_.template resolve<float>(layout.gradient_at(Half::kKeys, p_.view.rank, step, first));
      visit.dv = p_.template resolve<float>(layout.gradient_at(Half::kValues, p_.view.rank, step, first));
    }
    return visit;
  }

  const BackwardParams<Element, Pace>& p_;
  BackwardBlockShared<Config, Element>& shared_;
  Tell& tell_;
  sm90::TileGiver<WalkedKeys, kWalkedKeys> giver_;
  uint32_t tiles_ = 0;
  uint32_t given_ = 0;  // tiles and marks
};

// ---- the walk --------------------------------------------------------------------------------------------

// Waits and claims as the passer lets it.
template <class Passer>
class KeyWalkMachine : public sm90::ClaimingMachine {
 public:
  __device__ KeyWalkMachine(const RankView& view, const Post& post, int worker, uint32_t* failed, Passer& passer)
      : ClaimingMachine(view, post, worker, /*part=*/0, failed), passer_(passer) {}

  __device__ bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    if (look(signal, wanted)) return true;
    passer_.tell_all();
    return ClaimingMachine::wait(signal, wanted, subject);
  }
  __device__ bool wait_some(uint32_t signal, uint64_t wanted, int64_t subject) { return wait(signal, wanted, subject); }
  __device__ int64_t claim() {
    passer_.wait_until_asked();
    return ClaimingMachine::claim();
  }

 private:
  Passer& passer_;
};

// If keys will not come, the tiles so far are all.
template <class Config, class Element, class Pace>
__device__ __forceinline__ void walk_keys(const BackwardParams<Element, Pace>& p, const Post& post, int worker,
                                          BackwardBlockShared<Config, Element>& shared) {
  if (sm90::is_one_lane()) {
    shared.failed[0] = shared.failed[1] = 0;
    sm90::ptx::mbarrier_init(&shared.ahead, 1);
    shared.walked.prepare(/*takers=*/32);
  }
  __syncwarp();
  sm90::begin_jobs<Config>();
  using Passer = KeyPasser<Config, Element, Pace>;
  const BackwardLayout& layout = p.layout;
  sm90::Sm90Machine<sm90::WarpCrew, Pace> telling(p.view, post, worker, {}, Pace(p.pace));
  Teller<Element, Pace> teller{p, telling};
  typename Passer::Tell tell(shared, teller);
  Passer passer(p, shared, tell);
  KeyWalkMachine<Passer> machine(p.view, post, worker, &shared.failed[0], passer);
  before_steps(machine, layout);
  const auto visit = [&](const KeyTile& tile, int step) {
    if (layout.num_steps() > 1) passer.wait_until_asked();
    passer.pass(tile, step);
    return true;
  };
  if (before_blocks(machine, layout)) {
    for_each_key_tile(machine, layout, post, visit, [&](int step) { passer.mark(step); });
  }
  passer.end();
  telling.close();
  machine.close();
}

}  // namespace mk::attention
