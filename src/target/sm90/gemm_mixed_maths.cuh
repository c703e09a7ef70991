// SPDX-License-Identifier: MIT
// target/sm90/gemm_mixed_maths.cuh — a maths job for tiles of two kinds in any order.
//
// Two maths jobs in turns would do the same; but then each has sums of its own, and the compiler finds no registers for
// both.  Here one loop over k serves both kinds, and they part when a tile is rounded.  The first boxes of a tile are
// handed out at once: that leaves registers for the jobs beside this one.
#pragma once

#include "target/sm90/gemm_maths.cuh"

namespace mk::sm90 {

// The last tile leaves as all others: another way out would need more registers.
template <class Config, int kSumsToOne>
struct MixedBoxes : ResultBoxes<Config, 2, kSumsToOne> {
  static constexpr bool kLastThroughA = false;
};

// Of tiles whose hook writes results itself.
template <class Config>
struct NoBoxes : MixedBoxes<Config, 1> {
  static constexpr bool kHoldsNothing = true;
  static constexpr int kPerPart = 1;
  static constexpr int kWords = 0;
};

// First: MixedBoxes of this Config, or NoBoxes, whose hook may have a finish().  Second: MixedBoxes.  A thread keeps as
// many words of a First as of a Second, or fewer.
template <class Config, class Element, BOrder kOrder, class First, class Second>
class MixedMathsJob {
 public:
  __device__ explicit MixedMathsJob(GemmShared<Config, Element>& shared) : job_(shared) {}

  // with_first(body) calls body with the hook of a First.  It does so when the sums are there: until then registers are
  // scarce.
  template <class WithFirst, class SecondHook>
  __device__ void multiply(const MathsTile& tile, bool is_first, const WithFirst& with_first,
                           const SecondHook& second) {
    typename Job::Sums sums;
    int block = 0;
    if (boxes_ > 0) {
#pragma unroll
      for (int box = kAtOnce; box < kMostBoxes; ++box) {
        if (block < tile.k_blocks) job_.multiply_block(sums, block++);
        hand_out(box);
      }
    }
    for (; block < tile.k_blocks; ++block) job_.multiply_block(sums, block);
    job_.end_sums(sums);
    if (is_first) {
      with_first([&](const auto& first) {
        job_.template round<First>(sums, tile, first);
        if constexpr (requires { first.finish(); }) first.finish();
      });
      forget_words_behind_first();
    } else {
      job_.template round<Second>(sums, tile, second);
    }
    boxes_ = is_first ? First::kPerPart : Second::kPerPart;
    is_first_ = is_first;
#pragma unroll
    for (int box = 0; box < kAtOnce; ++box) hand_out(box);
  }

  // The job that other maths jobs go on from.
  __device__ auto& job() { return job_; }

  // As that of MathsJob; also after the last tile.
  __device__ void hand_out_all() {
    if (boxes_ == 0) return;
#pragma unroll
    for (int box = kAtOnce; box < kMostBoxes; ++box) hand_out(box);
    boxes_ = 0;
  }

 private:
  static_assert(!First::kLastThroughA && !Second::kLastThroughA);
  using Job = MathsJob<Config, Element, kOrder, Staging::kTensor, Second>;
  static constexpr int kAtOnce = 1;
  static constexpr int kMostBoxes = First::kPerPart > Second::kPerPart ? First::kPerPart : Second::kPerPart;

  // Boxes of either kind lie alike in registers and in shared memory.
  static constexpr bool kAreAlike = !First::kHoldsNothing && Config::kSlabs == 1 && First::kNarrow == Second::kNarrow &&
                                    First::kPerPart <= Second::kPerPart;

  // Else the compiler keeps them, of the tile before, through all of this one.
  __device__ void forget_words_behind_first() {
#pragma unroll
    for (int slab = 0; slab < Config::kSlabs; ++slab) {
#pragma unroll
      for (int i = First::kWords; i < Second::kWords; ++i) job_.pending_words_[slab][i] = 0;
    }
  }

  __device__ void hand_out(int box) {
    if (box >= boxes_) return;
    if (kAreAlike || !is_first_) {
      if (box < Second::kPerPart) job_.template hand_out<Second>(box);
    } else {
      if (box < First::kPerPart) job_.template hand_out<First>(box);
    }
  }

  Job job_;
  int boxes_ = 0;  // of the tile that is not handed out yet
  bool is_first_ = false;
};

}  // namespace mk::sm90
