// SPDX-License-Identifier: MIT
// target/sm90/attention_maths.cuh — the attention engine's maths job: a warpgroup computes its rows of each visit.
//
// Scores of a block of keys are issued before the product of the weights before them with their values, so that the
// tensor cores multiply while this warpgroup works out exponentials:
//
//   S(j) = Q·K(j)ᵀ issued;  O += P(j-1)·V(j-1) issued;  S(j) awaited, softmax;  O awaited;  P(j) rounded, O shrunk
//
// That goes on over visits: a visit's last product is issued behind the first scores of the next, and its output is
// stored when those are weights.  If the next visit's keys are not there yet, the visit ends at once.
//
// Where consumers take turns, each issues its two products as one, in a fixed order: while one's are multiplied, the
// other works out exponentials.
#pragma once

#include "target/sm90/attention_output.cuh"
#include "target/sm90/attention_shared.cuh"
#include "target/sm90/attention_softmax.cuh"
#include "target/sm90/wgmma.cuh"

namespace mk::sm90 {

// Barriers by name (ptx.cuh) that belong to the maths job, 1 to 4: two for each consumer.
enum class AttentionBarrier { kFirstTurn = 1, kFirstLook = 3 };

template <class Config, class Element>
class AttentionMathsJob {
 public:
  // The consumers are the second warpgroup of the block and those after it.  softmax_scale is positive.
  __device__ AttentionMathsJob(AttentionShared<Config, Element>& shared, const AttentionOutput<Element>& output,
                               float softmax_scale)
      : shared_(shared), output_(output), scale_(softmax_scale * kLog2E) {
    if (Config::kTakesTurns && consumer() == Config::kConsumers - 1) pass_turn();
  }

  // All visits that the load job gives.
  __device__ void run() {
    Output o;
    Weights p;
    SoftmaxRows rows;
    for (;; ++visits_) {
      if (is_pending() && !is_next_ready()) {
        multiply_values(p, o);
        end_product(o);
        end(visits_ - 1, o, rows);
      }
      const auto at = Cursor<kNotedVisits>::at(visits_);
      wait_phase(&shared_.visit_full[at.slot], at.phase);
      int left = noted(visits_).blocks;
      if (left == NotedVisit::kNoMore) return;
      if (left == 0) {
        begin_rows(rows);
        begin_output(o);
        end(visits_, o, rows);
        continue;
      }
      if (is_pending() && is_continued()) {
        wait_for_queries();
        wait_for_keys();
        free(visits_ - 1);
      } else {
        --left;
        if (is_pending()) {
          change_visit(p, o, rows, left == 0);
        } else {
          open_visit(p, o, rows, left == 0);
        }
      }
#pragma unroll 1
      while (left-- > 0) next_block(p, o, rows, left == 0);
    }
  }

 private:
  using Output = float[Config::kHeadDim / 2];
  using Block = float[Config::kTileN / 2];
  using Weights = uint32_t[Config::kTileN / 16][4];

  __device__ static int consumer() { return static_cast<int>(threadIdx.x) / 128 - 1; }
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 128; }
  // Of the warpgroup.  Read again where registers are short; elsewhere that would only keep exponentials from being
  // scheduled between other instructions.
  __device__ static int masked_thread() { return Config::kIsTight ? thread_again() % 128 : thread(); }

  // Whether the last product of the visit before is still to be issued.
  __device__ bool is_pending() const { return keys_ != values_; }

  // Whether this visit resumes what the one before pauses: its state stays where it is.
  __device__ bool is_continued() const {
    const AttentionVisit& before = noted(visits_ - 1).visit;
    const AttentionVisit& now = noted(visits_).visit;
    return before.end == VisitEnd::kPaused && now.begin == VisitBegin::kResumed && before.state == now.state;
  }

  __device__ const NotedVisit& noted(uint32_t visit) const {
    return shared_.visits[Cursor<kNotedVisits>::at(visit).slot];
  }

  // Whether the next visit's first scores can be issued now: one answer for the warpgroup.
  __device__ bool is_next_ready() const {
    const auto visit = Cursor<kNotedVisits>::at(visits_);
    const auto q = Cursor<Config::kQueryBuffers>::at(queries_);
    const auto k = Cursor<Config::kStages>::at(keys_);
    bool is_ready = ptx::mbarrier_test_wait_parity(&shared_.visit_full[visit.slot], visit.phase);
    is_ready = is_ready && noted(visits_).blocks > 0;
    is_ready = is_ready && ptx::mbarrier_test_wait_parity(&shared_.q_full[q.slot], q.phase) &&
               ptx::mbarrier_test_wait_parity(&shared_.k_full[k.slot], k.phase);
    return all_at(static_cast<int>(AttentionBarrier::kFirstLook) + consumer(), 128, is_ready);
  }

  // ---- blocks --------------------------------------------------------------------------------------

  // The first block of a visit when nothing is in flight, and when the last product of the visit before is to be
  // issued.
  __device__ void open_visit(Weights& p, Output& o, SoftmaxRows& rows, bool is_last) {
    wait_for_queries();
    wait_for_keys();
    Block s;
    take_turn();
    multiply_keys(s);
    pass_turn();
    begin_rows(rows);
    begin_output(o);
    wgmma_wait<0>();
    wgmma_results(s);
    float factor[2];
    const bool shrinks = soften(s, rows, factor, is_last);
    round_weights<Element, Config::kTileN>(s, p);
    if (shrinks) shrink<Config::kHeadDim>(o, factor);
  }
  __device__ void change_visit(Weights& p, Output& o, SoftmaxRows& rows, bool is_last) {
    wait_for_queries();
    wait_for_keys();
    Block s;
    take_turn();
    multiply_keys(s);
    multiply_values(p, o);
    pass_turn();
    SoftmaxRows fresh;
    begin_rows(fresh);
    wgmma_wait<1>();
    wgmma_results(s);
    float factor[2];
    const bool shrinks = soften(s, fresh, factor, is_last);
    end_product(o);
    end(visits_ - 1, o, rows);
    rows = fresh;
    begin_output(o);
    round_weights<Element, Config::kTileN>(s, p);
    if (shrinks) shrink<Config::kHeadDim>(o, factor);
  }

  // Its keys are there.
  __device__ void next_block(Weights& p, Output& o, SoftmaxRows& rows, bool is_last) {
    Block s;
    take_turn();
    multiply_keys(s);
    multiply_values(p, o);
    pass_turn();
    wgmma_wait<1>();
    wgmma_results(s);
    float factor[2];
    const bool shrinks = soften(s, rows, factor, is_last);
    end_product(o);
    round_weights<Element, Config::kTileN>(s, p);
    if (shrinks) shrink<Config::kHeadDim>(o, factor);
  }

  // Frees the keys, and the queries after their last block; waits for the keys of the next.
  __device__ bool soften(Block& s, SoftmaxRows& rows, float (&factor)[2], bool is_last) {
    const int k = Cursor<Config::kStages>::at(keys_).slot;
    const BlockMask mask = shared_.masks[k];
    if (mask.template cuts<64, Config::kTileN>(consumer() * 64))
      hide<Config::kTileN>(s, mask, consumer() * 64, masked_thread());
    release(shared_.k_empty[k]);
    ++keys_;
    if (is_last) {
      release(shared_.q_empty[Cursor<Config::kQueryBuffers>::at(queries_).slot]);
      ++queries_;
    }
    const bool shrinks = rows.weigh(s, scale_, factor);
    if (!is_last) wait_for_keys();
    return shrinks;
  }

  __device__ void wait_for_queries() const {
    const auto q = Cursor<Config::kQueryBuffers>::at(queries_);
    wait_phase(&shared_.q_full[q.slot], q.phase);
  }
  __device__ void wait_for_keys() const {
    const auto k = Cursor<Config::kStages>::at(keys_);
    wait_phase(&shared_.k_full[k.slot], k.phase);
  }

  __device__ void end_product(Output& o) {
    wgmma_wait<0>();
    wgmma_results(o);
    release(shared_.v_empty[Cursor<Config::kStages>::at(values_++).slot]);
  }

  // Each warp says so for itself, when all its lanes have read the block's mask, too.
  __device__ static void release(uint64_t& empty) {
    __syncwarp();
    if (thread() % 32 == 0) ptx::mbarrier_arrive(&empty);
  }

  __device__ void multiply_keys(Block& s) {
    const int q_slot = Cursor<Config::kQueryBuffers>::at(queries_).slot;
    const int k_slot = Cursor<Config::kStages>::at(keys_).slot;
    const Operand q(wgmma_operand(
        uniform(shared_address(shared_.q) + q_slot * Config::kQueryBytes + consumer() * 64 * 128), 16, 1024));
    const Operand k(wgmma_operand(uniform(shared_address(shared_.k) + k_slot * Config::kBlockBytes), 16, 1024));
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kHeadDim / 16; ++step) {
      const int box = step / 4;
      const int within = step % 4 * 32;
      wgmma<Element, Config::kTileN, BOrder::kNK>(s, q.at(box * Config::kTileM * 128 + within),
                                                  k.at(box * Config::kTileN * 128 + within), step > 0);
    }
    wgmma_commit();
  }

  __device__ void multiply_values(const Weights& p, Output& o) {
    const auto at = Cursor<Config::kStages>::at(values_);
    const Operand v(
        wgmma_operand(uniform(shared_address(shared_.v) + at.slot * Config::kBlockBytes), Config::kTileN * 128, 1024));
    wait_phase(&shared_.v_full[at.slot], at.phase);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kTileN / 16; ++step) {
      wgmma<Element, Config::kHeadDim, BOrder::kKN>(o, p[step], v.at(step * 2048), true);
    }
    wgmma_commit();
  }

  // ---- visits --------------------------------------------------------------------------------------

  __device__ void begin_rows(SoftmaxRows& rows) const {
    const AttentionVisit& visit = noted(visits_).visit;
    if (visit.begin == VisitBegin::kResumed) {
      AttentionState<Config>::load_rows(output_.states, visit.state, rows);
    } else {
      rows.clear();
    }
  }
  __device__ void begin_output(Output& o) const {
    const AttentionVisit& visit = noted(visits_).visit;
    if (visit.begin == VisitBegin::kResumed) {
      AttentionState<Config>::load_output(output_.states, visit.state, o);
    } else {
#pragma unroll
      for (float& value : o) value = 0;
    }
  }

  // Stores a visit's output or state, and frees its note.
  __device__ void end(uint32_t number, Output& o, const SoftmaxRows& rows) {
    const AttentionVisit& visit = noted(number).visit;
    if (visit.end == VisitEnd::kPaused) {
      AttentionState<Config>::store(output_.states, visit.state, o, rows);
    } else {
      const int row = consumer() * 64 + Fragment::sum_row(thread_again() % 128, 0);
      store_result<Config>(output_, visit.tile, row, scale_, o, rows);
    }
    free(number);
  }
  __device__ void free(uint32_t visit) {
    ptx::mbarrier_arrive(&shared_.visit_empty[Cursor<kNotedVisits>::at(visit).slot]);
  }

  // ---- turns ---------------------------------------------------------------------------------------

  // Two consumers meet at a turn: the one that takes it, and the one before it, which passes it on.
  static constexpr int kOfATurn = 2 * 128;
  __device__ static AttentionBarrier turn_of(int consumer) {
    return static_cast<AttentionBarrier>(static_cast<int>(AttentionBarrier::kFirstTurn) + consumer);
  }
  __device__ static void take_turn() {
    if constexpr (Config::kTakesTurns) sync_at(turn_of(consumer()), kOfATurn);
  }
  __device__ static void pass_turn() {
    if constexpr (Config::kTakesTurns) {
      const int next = consumer() + 1;
      arrive_at(turn_of(next == Config::kConsumers ? 0 : next), kOfATurn);
    }
  }

  AttentionShared<Config, Element>& shared_;
  const AttentionOutput<Element>& output_;
  const float scale_;  // a product: from a parameter as it is, exponentials would be scheduled in one run
  // How many there were: one register each, where a Cursor takes two.
  uint32_t visits_ = 0;
  uint32_t queries_ = 0;
  uint32_t keys_ = 0;
  uint32_t values_ = 0;
};

}  // namespace mk::sm90
