// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_maths.cuh — the backward engine's maths job: a warpgroup computes with its 64 keys.
//
// Of each block of queries, with everything transposed (attention_backward_shared.cuh):
//
//   S = K·Qᵀ issued;  dP = V·dOᵀ issued;  S awaited, P = exp(S - lse);  dV += P·dO issued;  dP awaited, dS = P (dP -
//   delta) dS to shared memory, all consumers meet;  dQ = dSᵀ·K issued;  dK += dS·Q issued;  dQ awaited and handed on;
//   dK awaited
#pragma once

#include "target/sm90/attention_backward_shared.cuh"
#include "target/sm90/attention_output.cuh"
#include "target/sm90/attention_softmax.cuh"
#include "target/sm90/wgmma.cuh"

namespace mk::sm90 {

// Barriers by name (ptx.cuh).
enum class AttentionBackwardBarrier { kWeighed = 1 };

// Gradients of keys and values: [batch, row, head, dim] with any strides of whole 16-byte vectors.
template <class Element>
struct KeyGradients {
  Element* dk = nullptr;
  Element* dv = nullptr;
  int64_t of_batch = 0;  // strides in elements
  int64_t of_row = 0;
  int64_t of_head = 0;
};

// The sums of a tile, as its threads hold them: dK, then dV.
template <class Config>
struct KeySums {
  static constexpr int kVectors = Config::kHeadDim / 8;  // of a thread, for each of the two
  static constexpr size_t kBytes = sizeof(float4) * 2 * kVectors * 128 * Config::kConsumers;

  template <class Vector>
  __device__ static Vector* of_thread(Vector* sums, int which) {
    const int thread = thread_again() - 128;
    return sums + (which * Config::kConsumers + thread / 128) * kVectors * 128 + thread % 128;
  }
  __device__ static void load(const float4* sums, int which, float (&to)[Config::kHeadDim / 2]) {
    const float4* const from = of_thread(sums, which);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const float4 v = __ldcg(from + i * 128);
      to[4 * i] = v.x;
      to[4 * i + 1] = v.y;
      to[4 * i + 2] = v.z;
      to[4 * i + 3] = v.w;
    }
  }
  __device__ static void store(float4* sums, int which, const float (&from)[Config::kHeadDim / 2]) {
    float4* const to = of_thread(sums, which);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      __stcg(to + i * 128, make_float4(from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]));
    }
  }
};

template <class Config, class Element>
class AttentionBackwardMathsJob {
 public:
  // The consumers are the second warpgroup of the block and the third.  softmax_scale is positive.
  __device__ AttentionBackwardMathsJob(AttentionBackwardShared<Config, Element>& shared,
                                       const KeyGradients<Element>& gradients, float softmax_scale)
      : shared_(shared),
        gradients_(gradients),
        scale_(softmax_scale * kLog2E),
        base_(uniform(shared_address(&shared))) {}

  // All visits that the load job gives.
  __device__ void run() {
    Sums dk;
    Sums dv;
    for (uint32_t visits = 0;; ++visits) {
      const auto at = Cursor<Shared::kVisits>::at(visits);
      wait_phase(&shared_.visit_full[at.slot], at.phase);
      const NotedKeyVisit& noted = shared_.visits[at.slot];
      int left = static_cast<int>(uniform(noted.blocks));
      if (left == NotedKeyVisit::kNoMore) break;
      begin(noted.visit, dk, dv);
      if (left > 0) {
        wait_phase(&shared_.k_full, tiles_);
        wait_phase(&shared_.v_full, tiles_);
        tiles_ ^= 1;
#pragma unroll 1
        while (left-- > 0) add_block(dk, dv);
        release(shared_.keys_empty);
      }
      end(noted.visit, dk, dv);
      release(shared_.visit_empty[at.slot]);
    }
    // The end counts as a block: the sums of the last one have been taken.
    wait_phase(&shared_.sum_empty[consumer()], (blocks_ & 1) ^ 1);
    release(shared_.sum_full[consumer()]);
  }

 private:
  using Shared = AttentionBackwardShared<Config, Element>;
  using Sums = float[Config::kHeadDim / 2];
  using Block = float[Config::kQueries / 2];
  using Words = uint32_t[Config::kQueries / 16][4];

  __device__ static int consumer() { return static_cast<int>(threadIdx.x) / 128 - 1; }
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 128; }
  __device__ static int first_row() {
    const int thread = thread_again() - 128;
    return thread / 128 * 64 + Fragment::sum_row(thread % 128, 0);
  }

  // Each warp says so for itself.
  __device__ static void release(uint64_t& barrier) {
    __syncwarp();
    if (thread() % 32 == 0) ptx::mbarrier_arrive(&barrier);
  }

  // ---- blocks --------------------------------------------------------------------------------------

  __device__ void add_block(Sums& dk, Sums& dv) {
    const auto stage = Cursor<Config::kStages>::at(blocks_);
    Block s;
    Block dp;
    wait_phase(&shared_.q_full[stage.slot], stage.phase);
    multiply_rows(s, shared_.k, shared_.q[stage.slot]);
    wait_phase(&shared_.g_full[stage.slot], stage.phase);
    multiply_rows(dp, shared_.v, shared_.g[stage.slot]);
    wgmma_wait<1>();
    wgmma_results(s);
    weigh(s, shared_.rows[stage.slot]);
    Words p;
    round_weights<Element, Config::kQueries>(s, p);
    wgmma_wait<0>();
    wgmma_results(dp);
    add_product(dv, p, shared_.g[stage.slot]);
    differ(p, dp, shared_.rows[stage.slot]);
    Words ds;
    round_weights<Element, Config::kQueries>(dp, ds);
    hand_over(ds, shared_.ds[blocks_ % 2]);
    Part dq;
    multiply_keys(dq, shared_.ds[blocks_ % 2]);
    add_product(dk, ds, shared_.q[stage.slot]);
    wgmma_wait<1>();
    wgmma_results(dv);
    wgmma_results(dq);
    release(shared_.g_empty[stage.slot]);
    hand_on(dq);
    wgmma_wait<0>();
    wgmma_results(dk);
    release(shared_.q_empty[stage.slot]);
    ++blocks_;
  }

  // Describes what lies in shared memory, so many bytes on.  From one register: where shared memory begins.
  __device__ Operand operand(const Element* at, int bytes, uint32_t leading_bytes) const {
    const auto offset = reinterpret_cast<const std::byte*>(at) - reinterpret_cast<const std::byte*>(&shared_);
    return Operand(wgmma_operand(uniform(base_ + static_cast<uint32_t>(offset) + bytes), leading_bytes, 1024));
  }

  // 64 keys' rows of the tile with all rows of the block.
  __device__ void multiply_rows(Block& s, const Element* tile, const Element* block) {
    const Operand a = operand(tile, consumer() * 64 * 128, 16);
    const Operand b = operand(block, 0, 16);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kHeadDim / 16; ++step) {
      const int box = step / 4;
      const int within = step % 4 * 32;
      wgmma<Element, Config::kQueries, BOrder::kNK>(s, a.at(box * Config::kKeys * 128 + within),
                                                    b.at(box * Config::kQueries * 128 + within), step > 0);
    }
    wgmma_commit();
  }

  __device__ void add_product(Sums& sums, const Words& weights, const Element* block) {
    const Operand b = operand(block, 0, Config::kQueries * 128);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kQueries / 16; ++step) {
      wgmma<Element, Config::kHeadDim, BOrder::kKN>(sums, weights[step], b.at(step * 2048), true);
    }
    wgmma_commit();
  }

  // Scores become weights.
  __device__ void weigh(Block& s, const RowNotes<Config>& rows) {
    const SeenBlock seen = shared_.notes[blocks_ % Shared::kNotes].seen;
    const float* const lse = rows.lse + Fragment::sum_col(thread_again(), 0);
#pragma unroll
    for (int i = 0; i < Config::kQueries / 2; i += 4) {
      const float2 less = *reinterpret_cast<const float2*>(lse + Fragment::sum_col(0, i));
      s[i] = exp2_of(__fmaf_rn(s[i], scale_, -less.x));
      s[i + 1] = exp2_of(__fmaf_rn(s[i + 1], scale_, -less.y));
      s[i + 2] = exp2_of(__fmaf_rn(s[i + 2], scale_, -less.x));
      s[i + 3] = exp2_of(__fmaf_rn(s[i + 3], scale_, -less.y));
    }
    if (seen.template cuts<64, Config::kQueries>(consumer() * 64)) hide_weights(s, seen);
  }
  __device__ static void hide_weights(Block& weights, const SeenBlock& seen) {
    const int col = Fragment::sum_col(thread_again(), 0);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first_row() + 8 * r;
      const int first = row + seen.first - col;
      const int last = row < seen.keys ? row + seen.last - col : -Config::kQueries;
#pragma unroll
      for (int i = 0; i < Config::kQueries / 2; ++i) {
        const int at = Fragment::sum_col(0, i);
        if (row_of_sum(i) == r && (at < first || at > last)) weights[i] = 0;
      }
    }
  }

  // Gradients of weights become gradients of scores.  Weights are those that were rounded for the product with dO:
  // there are no registers for others.
  __device__ static void differ(const Words& p, Block& dp, const RowNotes<Config>& rows) {
    const float* const delta = rows.delta + Fragment::sum_col(thread_again(), 0);
#pragma unroll
    for (int i = 0; i < Config::kQueries / 2; i += 4) {
      const float2 less = *reinterpret_cast<const float2*>(delta + Fragment::sum_col(0, i));
      const float2 upper = unpack_pair<Element>(p[i / 8][i % 8 / 2]);
      const float2 lower = unpack_pair<Element>(p[i / 8][i % 8 / 2 + 1]);
      dp[i] = upper.x * (dp[i] - less.x);
      dp[i + 1] = upper.y * (dp[i + 1] - less.y);
      dp[i + 2] = lower.x * (dp[i + 2] - less.x);
      dp[i + 3] = lower.y * (dp[i + 3] - less.y);
    }
  }

  // ---- gradients of queries --------------------------------------------------------------------------

  using Part = float[Config::kPartFloats / 128];

  // This consumer's keys of dS to shared memory, 16 × 16 at a time; then all consumers' are there.
  __device__ static void hand_over(const Words& ds, const Element* exchange) {
    const int thread = thread_again() - 128;
    const int lane = thread % 32;
    const int key = thread / 32 * 16 + lane % 16;
    const uint32_t first = shared_address(exchange) + key * 128;
#pragma unroll
    for (int step = 0; step < Config::kQueries / 16; ++step) {
      const int chunk = step % 4 * 2 + lane / 16;
      const uint32_t row = first + step / 4 * Config::kKeys * 128;
      store_matrices(row + ((chunk ^ key % 8) << 4), ds[step][0], ds[step][1], ds[step][2], ds[step][3]);
    }
    shared_stores_before_wgmma();
    sync_at(AttentionBackwardBarrier::kWeighed, 128 * Config::kConsumers);
  }

  // 64 queries by 64 columns of this consumer.
  __device__ void multiply_keys(Part& dq, const Element* exchange) {
    const int rows = Config::kPartsAreRows ? consumer() : 0;
    const int cols = Config::kPartsAreRows ? 0 : consumer();
    const Operand a = operand(exchange, rows * Config::kKeys * 128, 16);
    const Operand b = operand(shared_.k, cols * Config::kKeys * 128, 16);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kKeys / 16; ++step) {
      wgmma<Element, 64, BOrder::kKN, AOrder::kKM>(dq, a.at(step * 2048), b.at(step * 2048), step > 0);
    }
    wgmma_commit();
  }

  __device__ void hand_on(const Part& dq) {
    wait_phase(&shared_.sum_empty[consumer()], (blocks_ & 1) ^ 1);
    float4* const to = reinterpret_cast<float4*>(shared_.sums[consumer()]) + thread_again() % 128;
#pragma unroll
    for (int i = 0; i < Config::kPartFloats / 512; ++i) {
      to[i * 128] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    }
    shared_stores_before_tma();
    release(shared_.sum_full[consumer()]);
  }

  // ---- visits --------------------------------------------------------------------------------------

  __device__ static void begin(const KeyVisit& visit, Sums& dk, Sums& dv) {
    if (visit.from != nullptr) {
      KeySums<Config>::load(visit.from, 0, dk);
      KeySums<Config>::load(visit.from, 1, dv);
    } else {
#pragma unroll
      for (int i = 0; i < Config::kHeadDim / 2; ++i) dk[i] = dv[i] = 0;
    }
  }

  __device__ void end(const KeyVisit& visit, Sums& dk, Sums& dv) const {
    if (visit.to != nullptr) {
      KeySums<Config>::store(visit.to, 0, dk);
      KeySums<Config>::store(visit.to, 1, dv);
      return;
    }
    const int row = first_row();
    const int64_t first = visit.tile.batch * gradients_.of_batch + (visit.tile.row + row) * gradients_.of_row +
                          visit.tile.head * gradients_.of_head;
    const float of_scores = scale_ * (1 / kLog2E);
    const float by_scale[2] = {of_scores, of_scores};
    const float by_one[2] = {1, 1};
    store_rows<Config::kHeadDim>(gradients_.dk + first, gradients_.of_row, visit.tile.keys - row, by_scale, dk);
    store_rows<Config::kHeadDim>(gradients_.dv + first, gradients_.of_row, visit.tile.keys - row, by_one, dv);
  }

  Shared& shared_;
  const KeyGradients<Element>& gradients_;
  const float scale_;
  const uint32_t base_;
  uint32_t blocks_ = 0;
  uint32_t tiles_ = 0;
};

}  // namespace mk::sm90
