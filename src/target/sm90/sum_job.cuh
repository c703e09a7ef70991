// SPDX-License-Identifier: MIT
// target/sm90/sum_job.cuh — a warp adds the images of a tile: fp32, in the order given, rounded once.
//
// Images come piece by piece through a buffer in shared memory, so that loads are in flight while the warp adds.  A
// sum is written over its last addend and leaves from there.  This job does not know where an element lies in the
// tile; the caller does.
#pragma once

#include <cstdint>

#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/pipeline.cuh"
#include "target/sm90/vector.cuh"

namespace mk::sm90 {

// Which lanes call image_at: the one that loads or, if it takes the whole warp to say where an image lies, all.
enum class WhoAsks { kOneLane, kAllLanes };

template <class Element, WhoAsks kWho = WhoAsks::kOneLane>
class SumJob {
 public:
  // Someone may have copied pieces through the buffer before.
  __device__ explicit SumJob(const BulkPieces& pieces, uint32_t copied = 0)
      : pieces_(pieces),
        loading_(Cursor<BulkPieces::kPieces>::at(copied)),
        taken_(Cursor<BulkPieces::kPieces>::at(copied)) {}

  // Sums `count` images of so many bytes; image_at(i) is where the i-th lies.  Calls send(piece, first, bytes) for
  // each piece of the sum; in there bulk copies of the lane that is_one_lane may read the piece, and so may every lane.
  template <class ImageAt, class Send>
  __device__ void run(int count, uint32_t bytes, ImageAt&& image_at, Send&& send) {
    Loading next{0, 0};
    const auto load_next = [&] {
      if (next.first >= bytes) return;
      const std::byte* const from = image_at(next.image) + next.first;
      if (kWho == WhoAsks::kOneLane || is_one_lane()) load(from, piece_bytes(bytes - next.first));
      next.advance(count);
    };
    if (is_one_lane()) {
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});  // the tile before has left
      if constexpr (kWho == WhoAsks::kOneLane) {
        for (int i = 0; i < kAhead; ++i) load_next();
      }
    }
    if constexpr (kWho == WhoAsks::kAllLanes) {
      for (int i = 0; i < kAhead; ++i) load_next();
    }
    for (uint32_t first = 0; first < bytes; first += BulkPieces::kPieceBytes) {
      Vector<Element> sums[kVectors];
      for (int image = 0; image < count; ++image, ++taken_) {
        std::byte* const piece = pieces_[taken_.slot];
        wait_phase(&pieces_.loaded[taken_.slot], taken_.phase);
        if (count > 1) add(sums, piece);
        const bool is_sum = image == count - 1;
        if (is_sum) {
          if (count > 1) write(sums, piece);
          send(piece, first, piece_bytes(bytes - first));
        }
        __syncwarp();  // all lanes are done with the piece
        if (is_one_lane()) {
          if (is_sum) ptx::cp_async_bulk_commit_group();
          free_next_piece(image, count);
          if constexpr (kWho == WhoAsks::kOneLane) load_next();
        }
        if constexpr (kWho == WhoAsks::kAllLanes) load_next();
      }
    }
  }

 private:
  static constexpr int kAhead = 4;
  static constexpr int kVectorBytes = 16;
  static constexpr int kVectors = BulkPieces::kPieceBytes / kVectorBytes / 32;  // of a lane

  struct Loading {
    int image;
    uint32_t first;
    __device__ void advance(int count) {
      if (++image < count) return;
      image = 0;
      first += BulkPieces::kPieceBytes;
    }
  };

  __device__ static uint32_t piece_bytes(uint32_t left) { return min_of(left, BulkPieces::kPieceBytes); }
  __device__ static uint4* vector_of(std::byte* piece, int i) {
    return reinterpret_cast<uint4*>(piece) + i * 32 + threadIdx.x % 32;
  }

  // After `image` of `count` the next load goes where the piece three before it is.  If that was a sum its copies must
  // have read it; those of sums since then may still be on their way.
  __device__ static void free_next_piece(int image, int count) {
    static_assert(BulkPieces::kPieces == kAhead + 3);
    if (count == 1) {
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<3>{});
    } else if (count <= 3) {
      if (image == (count == 2 ? 0 : 2)) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<1>{});
    } else if (image == 2) {
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
    }
  }

  __device__ void load(const std::byte* from, uint32_t bytes) {
    uint64_t* const loaded = &pieces_.loaded[loading_.slot];
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, loaded, bytes);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, pieces_[loading_.slot], from, bytes, loaded);
    ++loading_;
  }

  // All of the piece, even where its end holds nothing of use: so no load waits for a branch.
  __device__ static void add(Vector<Element> (&sums)[kVectors], std::byte* piece) {
    uint4 bits[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) bits[i] = *vector_of(piece, i);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) sums[i].add(bits[i]);
  }

  // Every lane over what it has read itself.
  __device__ static void write(const Vector<Element> (&sums)[kVectors], std::byte* piece) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) *vector_of(piece, i) = sums[i].rounded();
    shared_stores_before_tma();
    __syncwarp();
  }

  const BulkPieces pieces_;
  Cursor<BulkPieces::kPieces> loading_;  // of the lane that loads
  Cursor<BulkPieces::kPieces> taken_;
};

}  // namespace mk::sm90
