// SPDX-License-Identifier: MIT
// target/sm90/gemm_maths.cuh — the maths job: a warpgroup multiplies its part of each tile.
//
// One group of wgmmas is always in flight inside a tile.  A finished tile is rounded to 16 bits, which
// halves its registers, or folded, and is handed to the store job box by box between the first blocks of k of the
// next tile, while the tensor cores work on that one.
#pragma once

#include "target/sm90/box_image.h"
#include "target/sm90/epilogue.cuh"
#include "target/sm90/fragment.h"
#include "target/sm90/gemm_shared.cuh"
#include "target/sm90/result_boxes.h"
#include "target/sm90/wgmma.cuh"

namespace mk::sm90 {

// How a box of C is staged: as TMA wants it for a tensor store, or as an image (box_image.h), whose boxes at
// the right edge are narrower.
enum class Staging { kTensor, kImage };

// What the maths job must know of a tile.
struct MathsTile {
  int k_blocks = 1;  // as the load job has them
  int row = 0;       // of C: where the tile's result begins
  int col = 0;
  int cols = 0;  // of C, from `col` on; only for an image
};

// Results: ResultBoxes of this Config.
template <class Config, class Element, BOrder kOrder, Staging kStaging = Staging::kTensor,
          class Results = ResultBoxes<Config>>
class MathsJob {
  static_assert(kStaging == Staging::kTensor || Results::kNarrow == 0, "boxes of an image are narrow at its edge only");

 public:
  // The consumers are the second warpgroup of the block and those after it.
  __device__ explicit MathsJob(GemmShared<Config, Element>& shared) : shared_(shared) {}

  // Goes on where `before` stops: the next tiles have results of another kind, or a B in another order.  Only if there
  // is a next tile; `before` is not finished, but its last tile handed out.
  template <BOrder kOtherOrder, Staging kOtherStaging, class OtherResults>
  __device__ explicit MathsJob(MathsJob<Config, Element, kOtherOrder, kOtherStaging, OtherResults>& before)
      : shared_(before.shared_) {
    before.hand_out_all();
    cursor_ = before.cursor_;
    c_cursor_ = before.c_cursor_;
  }

  // Every sum passes `hook`, of epilogue.cuh.  kOrderOfA: kKM for a product over rows (LoadJob::load_over_rows).
  template <AOrder kOrderOfA = AOrder::kMK, class Hook>
  __device__ void multiply(const MathsTile& tile, const Hook& hook) {
    Sums sums;
    int block = 0;
    if (pending_) {
#pragma unroll
      for (int box = 0; box < Results::kPerPart; ++box) {
        if (block < tile.k_blocks) multiply_block<kOrderOfA>(sums, block++);
        hand_out(box);
      }
    }
    for (; block < tile.k_blocks; ++block) multiply_block<kOrderOfA>(sums, block);
    end_sums(sums);
    round(sums, tile, hook);
    pending_ = true;
    if constexpr (kStaging == Staging::kImage) pending_cols_ = tile.cols - part_col() / Results::kFold;
  }

  // Hands the tile before out at once, not while the next one is multiplied.  Before a tile whose operands are results
  // of this launch, on which its load job waits: what it waits for may be that tile, here or, by way of other blocks
  // that wait as well, anywhere.  Only if there is a next tile.
  __device__ void hand_out_all() {
    if (!pending_) return;
#pragma unroll
    for (int box = 0; box < Results::kPerPart; ++box) hand_out(box);
    pending_ = false;
  }

  // Hands the last tile out.
  __device__ void finish() {
    if (!pending_) return;
#pragma unroll
    for (int box = 0; box < Results::kPerPart; ++box) hand_out_last(box);
  }

 private:
  template <class, class, BOrder, Staging, class>
  friend class MathsJob;
  template <class, class, BOrder, class, class>
  friend class MixedMathsJob;

  // Registers are scarce here: what is cheap to work out again is not kept.
  __device__ static int consumer() { return static_cast<int>(threadIdx.x) / 128 - 1; }
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 128; }

  using Sums = float[Config::kSlabs][Config::kPartN / 2];
  using Image = BoxImageOf<Results::kElementBytes>;

  __device__ int part_row() const { return Config::kConsumersAlongM == 1 ? 0 : consumer() * Config::kPartM; }
  __device__ int part_col() const { return Config::kConsumersAlongM == 1 ? consumer() * Config::kPartN : 0; }

  // Frees the stage of the block before the one that comes next.
  __device__ void release_stage_before() {
    const int stage = (cursor_.slot == 0 ? Config::kStages : cursor_.slot) - 1;
    if constexpr (Config::kCluster > 1) {
      if (thread() < Config::kCluster) arrive_in_cluster(&shared_.empty[stage], thread());
    } else {
      if (thread() == 0) ptx::mbarrier_arrive(&shared_.empty[stage]);
    }
  }

  template <AOrder kOrderOfA = AOrder::kMK>
  __device__ void multiply_block(Sums& sums, int block) {
    const int stage = cursor_.slot;
    wait_phase(&shared_.full[stage], cursor_.phase);
    const uint32_t a = shared_address(shared_.a[stage]) + part_row() * 128;
    const uint32_t b = shared_address(shared_.b[stage]) + part_col() * 128;  // in either order of B
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Config::kTileK / 16; ++step) {
#pragma unroll
      for (int slab = 0; slab < Config::kSlabs; ++slab) {
        wgmma<Element, Config::kPartN, kOrder, kOrderOfA>(sums[slab], operand_a<kOrderOfA>(a + slab * 64 * 128, step),
                                                          operand_b(b, step), block > 0 || step > 0);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();  // the block before is done, its stage may be refilled
    if (block > 0) release_stage_before();
    ++cursor_;
  }

  // After a tile's last block of k.
  __device__ void end_sums(Sums& sums) {
    wgmma_wait<0>();
#pragma unroll
    for (int slab = 0; slab < Config::kSlabs; ++slab) wgmma_results(sums[slab]);
    release_stage_before();
  }

  // As B, see below; there are 64 rows in either order.
  template <AOrder kOrderOfA>
  __device__ static uint64_t operand_a(uint32_t a, int step) {
    if constexpr (kOrderOfA == AOrder::kMK) {
      return wgmma_operand(a + step * 32, 16, 1024);
    } else {
      return wgmma_operand(a + step * 2048, Config::kTileK * 128, 1024);
    }
  }

  // Rows of 128 bytes in groups of 8.  [N,K]: as A, 16 of k are 32 bytes on.  [K,N]: boxes of 64 columns,
  // in each k by k.
  __device__ static uint64_t operand_b(uint32_t b, int step) {
    if constexpr (kOrder == BOrder::kNK) {
      return wgmma_operand(b + step * 32, 16, 1024);
    } else {
      return wgmma_operand(b + step * 2048, Config::kTileK * 128, 1024);
    }
  }

  // R: the results of this tile.
  template <class R = Results, class Hook>
  __device__ void round(Sums& sums, const MathsTile& tile, const Hook& hook) {
    static_assert(Hook::kFold == R::kFold && R::kElementBytes == Results::kElementBytes &&
                  R::kWords <= Results::kWords);
    int own_row = tile.row + part_row() + Fragment::sum_row(thread(), 0);
    int own_col = tile.col + part_col() / R::kFold + Fragment::sum_col(thread(), 0);
    // Else the compiler works out rows and columns of all sums once for all tiles, and keeps them in local memory.
    if constexpr (requires { Hook::kHasOwnPlaces; }) compute_again(own_row, own_col);
#pragma unroll
    for (int slab = 0; slab < Config::kSlabs; ++slab) {
#pragma unroll
      for (int i = 0; i < R::kPartN / 2; i += 2) {
        const int row = own_row + slab * 64 + Fragment::sum_row(0, i);
        const int col = own_col + Fragment::sum_col(0, i);
        float(&d)[Config::kPartN / 2] = sums[slab];
        if constexpr (R::kHoldsNothing) {
          hook(d[i], d[i + 1], row, col);
        } else if constexpr (R::kFold == 1) {
          hook(d[i], d[i + 1], row, col);
          keep(slab, i, d[i], d[i + 1]);
        } else {
          const int gate = i / 4 * 8 + i % 4;  // the up's group of 8 columns is the one after the gate's: 4 sums on
          hook(d[gate], d[gate + 1], d[gate + 4], d[gate + 5], row, col);
          keep(slab, i, d[gate], d[gate + 1]);
        }
      }
    }
  }

  __device__ void keep(int slab, int i, float x, float y) {
    if constexpr (Results::kElementBytes == 2) {
      pending_words_[slab][i / 2] = pack<Element>(x, y);
    } else {
      pending_words_[slab][i] = word_of(x);
      pending_words_[slab][i + 1] = word_of(y);
    }
  }

  template <class R = Results>
  __device__ void hand_out(int box) {
    const int buffer = c_cursor_.slot;
    wait_phase(&shared_.c_empty[consumer()][buffer], c_cursor_.phase ^ 1);
    if constexpr (!R::kHoldsNothing) write_box<R>(box, shared_.c[consumer()][buffer]);
    tell(&shared_.c_full[consumer()][buffer]);
    ++c_cursor_;
  }

  // Of the block's last tile.
  template <class R = Results>
  __device__ void hand_out_last(int box) {
    if constexpr (R::kLastThroughA) {
      write_box<R>(box, last_box(shared_, consumer(), box));
      tell(&shared_.last_full[consumer()][box]);
    } else {
      hand_out<R>(box);
    }
  }

  template <class R = Results>
  __device__ void write_box(int box, Element* to) {
    const int across = box % R::kAcross;
    const uint32_t* words = pending_words_[box / R::kAcross] + across * 16;
    const int width = R::is_narrow(across * R::kCols) ? R::kNarrow : R::kCols;
    const int cols = kStaging == Staging::kImage ? pending_cols_ - across * R::kCols : width;
    if constexpr (Results::kElementBytes == 2) {
      write_pairs(words, width, cols, to);
    } else {
      write_floats(words, width, cols, to);
    }
  }

  __device__ static void write_pairs(const uint32_t* words, int width, int cols, Element* to) {
    const int lane = thread() % 32;
    // stmatrix: lanes 0-7 address rows 0-7, lanes 8-15 rows 8-15, lanes 16-31 the next 8 columns.
    const int row = thread() / 32 * 16 + lane % 16;
#pragma unroll
    for (int pair = 0; pair < Results::kCols / 16; ++pair) {
      if (pair * 16 >= width) continue;
      const uint32_t* v = words + pair * 4;
      store_matrices(shared_address(to) + staged_at(row, pair * 2 + lane / 16, cols), v[0], v[1], v[2], v[3]);
    }
  }

  __device__ static void write_floats(const uint32_t* words, int width, int cols, Element* to) {
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
      const int col = Fragment::sum_col(thread(), i);
      if (i / 4 * 8 >= width) continue;
      const int at = staged_at(Fragment::sum_row(thread(), i), col / Image::kVectorCols, cols);
      std::byte* const pair = reinterpret_cast<std::byte*>(to) + at + col % Image::kVectorCols * 4;
      *reinterpret_cast<uint2*>(pair) = {words[i], words[i + 1]};
    }
  }

  // Where a vector of a row of a box with `cols` columns goes, in bytes.  A narrow box of an image leaves the end of
  // its buffer unused: what lies beyond its columns is thrown there.
  __device__ static uint32_t staged_at(int row, int vector, int cols) {
    if (cols >= Results::kCols) return Image::in_full_box(row, vector);
    if (kStaging == Staging::kTensor) return in_narrow_tensor_box(row, vector);
    return vector * Image::kVectorCols < cols ? Image::in_narrow_box(row, vector, cols) : Image::kUnusedVector;
  }

  // TMA's swizzle of rows of 64 bytes: two rows share a number to swizzle with.
  __device__ static uint32_t in_narrow_tensor_box(int row, int vector) {
    return row * 64 + (vector ^ (row / 2 % 4)) * 16;
  }

  __device__ void tell(uint64_t* full) {
    shared_stores_before_tma();
    __syncwarp();
    if (thread() % 32 == 0) ptx::mbarrier_arrive(full);
  }

  GemmShared<Config, Element>& shared_;
  Cursor<Config::kStages> cursor_;
  Cursor<Config::kStoreBuffers> c_cursor_;
  bool pending_ = false;
  int pending_cols_ = 0;
  uint32_t pending_words_[Config::kSlabs][Results::kWords];
};

}  // namespace mk::sm90
