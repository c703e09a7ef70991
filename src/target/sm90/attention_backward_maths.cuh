// SPDX-License-Identifier: MIT
// target/sm90/attention_backward_maths.cuh — the backward engine's maths job: a warpgroup computes with 64 keys.
//
// Of each block of queries, with everything transposed (attention_backward_shared.cuh):
//
//   S = K·Qᵀ issued;  dP = V·dOᵀ issued;  S awaited, P = exp(S - lse);  dP awaited, dS = P (dP - delta);  dV += P·dO
//   issued;  dS to shared memory, all consumers meet;  dQ = dSᵀ·K issued;  dK += dS·Q issued;  dQ awaited and handed
//   on;  dK awaited
//
// Where consumers share keys, P goes to shared memory with dS, and dV is issued when all have met.
#pragma once

#include "target/sm90/attention_backward_shared.cuh"
#include "target/sm90/attention_output.cuh"
#include "target/sm90/attention_softmax.cuh"
#include "target/sm90/wgmma.cuh"

namespace mk::sm90 {

// Barriers by name (ptx.cuh).
enum class AttentionBackwardBarrier { kWeighed = 1 };

// Gradients of keys, or of values: [batch, row, head, dim] with any strides of whole 16-byte vectors.
template <class Element>
struct HeadGradients {
  Element* first = nullptr;
  int64_t of_batch = 0;  // strides in elements
  int64_t of_row = 0;
  int64_t of_head = 0;

  __device__ Element* at(int64_t batch, int64_t row, int64_t head) const {
    return first + batch * of_batch + row * of_row + head * of_head;
  }
};

template <class Element>
struct KeyGradients {
  HeadGradients<Element> dk;
  HeadGradients<Element> dv;
};

template <class Config, class Element>
class AttentionBackwardMathsJob {
 public:
  // The consumers are the second warpgroup of the block and the third.  score_scale is the softmax scale, which is
  // positive, times log2 e: as a parameter of the kernel it takes no register.
  __device__ AttentionBackwardMathsJob(AttentionBackwardShared<Config, Element>& shared,
                                       const KeyGradients<Element>& gradients, float score_scale)
      : gradients_(gradients), scale_(score_scale), base_(uniform(shared_address(&shared))) {}

  // All visits that the load job gives.
  __device__ void run() {
    Sums dk;
    Sums dv;
    for (uint32_t visits = 0;; ++visits) {
      const auto at = Cursor<Shared::kVisits>::at(visits);
      wait_phase(&shared().visit_full[at.slot], at.phase);
      const NotedKeyVisit& noted = shared().visits[at.slot];
      int left = static_cast<int>(uniform(noted.blocks));
      if (left == NotedKeyVisit::kNoMore) break;
      if (left != NotedKeyVisit::kMark) {
#pragma unroll
        for (int i = 0; i < Config::kSumCols / 2; ++i) dk[i] = dv[i] = 0;
        if (left > 0) {
          wait_phase(&shared().k_full, counts_ / kOfATile);
          wait_phase(&shared().v_full, counts_ / kOfATile);
          counts_ ^= kOfATile;
#pragma unroll 1
          while (left-- > 0) add_block(dk, dv);
          release(shared().keys_empty);
        }
        end(noted.visit, dk, dv);
      }
      release(shared().visit_done[at.slot]);
    }
  }

 private:
  using Shared = AttentionBackwardShared<Config, Element>;
  // Registers are full, so shared memory is found from one that says where it begins, and one holds two counts: blocks
  // so far and, in its highest bit, whether tiles so far are odd.
  static constexpr uint32_t kOfATile = 1u << 31;
  __device__ Shared& shared() const { return *static_cast<Shared*>(shared_pointer(base_)); }
  __device__ uint32_t blocks() const { return counts_ & ~kOfATile; }

  using Sums = float[Config::kSumCols / 2];
  using Block = float[Config::kWeighed / 2];
  using Words = uint32_t[Config::kWeighed / 16][4];

  __device__ static int consumer() { return static_cast<int>(threadIdx.x) / 128 - 1; }
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 128; }
  // Of this thread: the first key in the tile, the first query in the block, the first column of its keys' sums.
  __device__ static int first_row() {
    const int thread = thread_again() - 128;
    return (Config::kShareKeys ? 0 : thread / 128 * 64) + Fragment::sum_row(thread % 128, 0);
  }
  __device__ static int first_query() {
    const int thread = thread_again();
    return (Config::kShareKeys ? (thread / 128 - 1) * Config::kWeighed : 0) + Fragment::sum_col(thread, 0);
  }
  __device__ static int first_column() { return Config::kShareKeys ? consumer() * Config::kSumCols : 0; }

  // Each warp says so for itself.
  __device__ static void release(uint64_t& barrier) {
    __syncwarp();
    if (thread() % 32 == 0) ptx::mbarrier_arrive(&barrier);
  }

  // ---- blocks --------------------------------------------------------------------------------------

  __device__ void add_block(Sums& dk, Sums& dv) {
    const auto stage = Cursor<Config::kStages>::at(blocks());
    const auto g_stage = Cursor<Config::kGradientStages>::at(blocks());
    Block s;
    Block dp;
    wait_phase(&shared().q_full[stage.slot], stage.phase);
    multiply_rows(s, shared().k, shared().q[stage.slot]);
    wait_phase(&shared().g_full[g_stage.slot], g_stage.phase);
    multiply_rows(dp, shared().v, shared().g[g_stage.slot]);
    wgmma_wait<1>();
    wgmma_results(s);
    weigh(s, shared().rows[stage.slot]);
    wgmma_wait<0>();
    wgmma_results(dp);
    Words p;
    Words ds;
    differ(s, dp, shared().rows[stage.slot], p, ds);
    const auto& exchange = shared().exchange[blocks() % 2];
    Parts dq;
    if constexpr (Config::kShareKeys) {
      hand_over(p, exchange[Shared::kWeights]);
      hand_over(ds, exchange[Shared::kGradients]);
      meet();
      add_product(dv, exchange[Shared::kWeights], shared().g[g_stage.slot]);
      multiply_keys(dq, exchange[Shared::kGradients]);
      add_product(dk, exchange[Shared::kGradients], shared().q[stage.slot]);
    } else {
      add_product(dv, p, shared().g[g_stage.slot]);
      hand_over(ds, exchange[Shared::kGradients]);
      meet();
      multiply_keys(dq, exchange[Shared::kGradients]);
      add_product(dk, ds, shared().q[stage.slot]);
    }
    wgmma_wait<1>();
    wgmma_results(dv);
    wgmma_results(dq);
    release(shared().g_empty[g_stage.slot]);
    hand_on(dq);
    wgmma_wait<0>();
    wgmma_results(dk);
    release(shared().q_empty[stage.slot]);
    ++counts_;
  }

  // Describes what lies in shared memory, so many bytes on.
  __device__ Operand operand(const Element* at, int bytes, uint32_t leading_bytes) const {
    const auto offset = reinterpret_cast<const std::byte*>(at) - reinterpret_cast<const std::byte*>(&shared());
    return Operand(wgmma_operand(uniform(base_ + static_cast<uint32_t>(offset) + bytes), leading_bytes, 1024));
  }

  // This consumer's keys of the tile with its queries of the block.
  __device__ void multiply_rows(Block& s, const Element* tile, const Element* block) {
    const Operand a = operand(tile, Config::kShareKeys ? 0 : consumer() * 64 * 128, 16);
    const Operand b = operand(block, Config::kShareKeys ? consumer() * Config::kWeighed * 128 : 0, 16);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kHeadDim / 16; ++step) {
      const int box = step / 4;
      const int within = step % 4 * 32;
      wgmma<Element, Config::kWeighed, BOrder::kNK>(s, a.at(box * Config::kKeys * 128 + within),
                                                    b.at(box * Config::kQueries * 128 + within), step > 0);
    }
    wgmma_commit();
  }

  __device__ void add_product(Sums& sums, const Words& weights, const Element* block) {
    const Operand b = operand(block, 0, Config::kQueries * 128);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kQueries / 16; ++step) {
      wgmma<Element, Config::kSumCols, BOrder::kKN>(sums, weights[step], b.at(step * 2048), true);
    }
    wgmma_commit();
  }
  // The same with weights that all consumers have handed over.
  __device__ void add_product(Sums& sums, const Element* weights, const Element* block) {
    const Operand a = operand(weights, 0, 16);
    const Operand b = operand(block, first_column() / 64 * Config::kQueries * 128, Config::kQueries * 128);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kQueries / 16; ++step) {
      wgmma<Element, Config::kSumCols, BOrder::kKN>(sums, a.at(step / 4 * Config::kKeys * 128 + step % 4 * 32),
                                                    b.at(step * 2048), true);
    }
    wgmma_commit();
  }

  // Scores become weights.
  __device__ void weigh(Block& s, const RowNotes<Config>& rows) {
    const SeenBlock seen = shared().notes[blocks() % Shared::kNotes].seen;
    const float* const lse = rows.lse + first_query();
#pragma unroll
    for (int i = 0; i < Config::kWeighed / 2; i += 4) {
      const float2 less = *reinterpret_cast<const float2*>(lse + Fragment::sum_col(0, i));
      s[i] = exp2_of(__fmaf_rn(s[i], scale_, -less.x));
      s[i + 1] = exp2_of(__fmaf_rn(s[i + 1], scale_, -less.y));
      s[i + 2] = exp2_of(__fmaf_rn(s[i + 2], scale_, -less.x));
      s[i + 3] = exp2_of(__fmaf_rn(s[i + 3], scale_, -less.y));
    }
    if (seen.template cuts<64, Config::kQueries>(Config::kShareKeys ? 0 : consumer() * 64)) hide_weights(s, seen);
  }
  __device__ static void hide_weights(Block& weights, const SeenBlock& seen) {
    const int col = first_query();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first_row() + 8 * r;
      const int first = row + seen.first - col;
      const int last = row < seen.keys ? row + seen.last - col : -Config::kQueries;
#pragma unroll
      for (int i = 0; i < Config::kWeighed / 2; ++i) {
        const int at = Fragment::sum_col(0, i);
        if (row_of_sum(i) == r && (at < first || at > last)) weights[i] = 0;
      }
    }
  }

  // Weights and gradients of scores, rounded, from weights and their gradients.
  __device__ static void differ(const Block& weights, const Block& dp, const RowNotes<Config>& rows, Words& p,
                                Words& ds) {
    const float* const delta = rows.delta + first_query();
#pragma unroll
    for (int i = 0; i < Config::kWeighed / 2; i += 4) {
      const float2 less = *reinterpret_cast<const float2*>(delta + Fragment::sum_col(0, i));
      ds[i / 8][i % 8 / 2] = pack<Element>(weights[i] * (dp[i] - less.x), weights[i + 1] * (dp[i + 1] - less.y));
      ds[i / 8][i % 8 / 2 + 1] =
          pack<Element>(weights[i + 2] * (dp[i + 2] - less.x), weights[i + 3] * (dp[i + 3] - less.y));
      p[i / 8][i % 8 / 2] = pack<Element>(weights[i], weights[i + 1]);
      p[i / 8][i % 8 / 2 + 1] = pack<Element>(weights[i + 2], weights[i + 3]);
    }
  }

  // ---- gradients of queries --------------------------------------------------------------------------

  // A consumer's parts, side by side.
  static constexpr int kOfPart = Config::kPartFloats / 128;
  using Parts = float[Config::kRounds * kOfPart];

  // What this consumer computed to shared memory, 16 × 16 at a time.
  __device__ static void hand_over(const Words& words, const Element* exchange) {
    const int thread = thread_again() - 128;
    const int lane = thread % 32;
    const int key = (Config::kShareKeys ? thread % 128 : thread) / 32 * 16 + lane % 16;
    const int queries = Config::kShareKeys ? thread / 128 * Config::kWeighed : 0;
    const uint32_t first = shared_address(exchange) + key * 128;
#pragma unroll
    for (int step = 0; step < Config::kWeighed / 16; ++step) {
      const int chunk = queries / 8 + step % 4 * 2 + lane / 16;
      const uint32_t row = first + step / 4 * Config::kKeys * 128;
      store_matrices(row + ((chunk ^ key % 8) << 4), words[step][0], words[step][1], words[step][2], words[step][3]);
    }
  }
  // Then what all consumers handed over is there.
  __device__ static void meet() {
    shared_stores_before_wgmma();
    sync_at(AttentionBackwardBarrier::kWeighed, 128 * Config::kConsumers);
  }

  // The parts of this consumer, from all keys.
  __device__ void multiply_keys(Parts& dq, const Element* exchange) {
    const int rows = Config::kPartsAreRows ? consumer() : 0;
    const int cols = Config::kPartsAreRows ? 0 : consumer() * Config::kRounds;
    const Operand a = operand(exchange, rows * Config::kKeys * 128, 16);
    // Registers are full: of a single box, one that says the same as other operands.
    const Operand b = operand(shared().k, cols * Config::kKeys * 128, Config::kRounds > 1 ? Config::kKeys * 128 : 16);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kKeys / 16; ++step) {
      wgmma<Element, 64 * Config::kRounds, BOrder::kKN, AOrder::kKM>(dq, a.at(step * 2048), b.at(step * 2048),
                                                                     step > 0);
    }
    wgmma_commit();
  }

  __device__ void hand_on(const Parts& dq) {
#pragma unroll
    for (int round = 0; round < Config::kRounds; ++round) {
      const auto at = Cursor<Config::kSumBuffers>::at(blocks() * Config::kRounds + round);
      float4* const to = reinterpret_cast<float4*>(shared().sums[at.slot][consumer()]) + thread_again() % 128;
      wait_phase(&shared().sum_empty[at.slot][consumer()], at.phase ^ 1);
#pragma unroll
      for (int i = 0; i < kOfPart / 4; ++i) {
        const float* const part = dq + round * kOfPart + 4 * i;
        to[i * 128] = make_float4(part[0], part[1], part[2], part[3]);
      }
      shared_stores_before_tma();
      release(shared().sum_full[blocks() % kAdders][consumer()]);
    }
  }

  // ---- gradients of keys -----------------------------------------------------------------------------

  __device__ void end(const KeyVisit& visit, Sums& dk, Sums& dv) const {
    const int row = first_row();
    const int rows = visit.tile.keys - row;
    if (visit.dk != nullptr) {
      const int at = row * Config::kHeadDim + first_column();
      store_sums<Config::kHeadDim, Config::kSumCols>(visit.dk + at, rows, dk);
      store_sums<Config::kHeadDim, Config::kSumCols>(visit.dv + at, rows, dv);
      return;
    }
    const auto to = [&](const HeadGradients<Element>& gradients) {
      return gradients.at(visit.tile.batch, visit.tile.row + row, visit.tile.head) + first_column();
    };
    const float of_scores = scale_ * (1 / kLog2E);
    const float by_scale[2] = {of_scores, of_scores};
    const float by_one[2] = {1, 1};
    store_rows<Config::kSumCols>(to(gradients_.dk), gradients_.dk.of_row, rows, by_scale, dk);
    store_rows<Config::kSumCols>(to(gradients_.dv), gradients_.dv.of_row, rows, by_one, dv);
  }

  const KeyGradients<Element>& gradients_;
  const float scale_;
  const uint32_t base_;
  uint32_t counts_ = 0;
};

}  // namespace mk::sm90
