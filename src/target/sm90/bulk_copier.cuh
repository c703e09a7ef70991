// SPDX-License-Identifier: MIT
// target/sm90/bulk_copier.cuh — one thread copies global memory with the bulk copy engine.
//
// Data goes through a buffer of pieces in shared memory: kAhead loads are in flight while stores drain.  In a
// communication block a piece is half a box of C (box_image.h), in the format in which TMA can store it.  copy()
// returns when the last store is issued; finish() when all stores so far have landed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "target/sm90/communication_block.h"
#include "target/sm90/ptx.cuh"

namespace mk::sm90 {

struct BulkPieces {
  static constexpr int kPieces = 7;
  static constexpr uint32_t kPieceBytes = 4 * 1024;  // of a buffer as it is

  std::byte* data = nullptr;
  uint64_t* loaded = nullptr;
  uint32_t bytes = kPieceBytes;  // of a piece

  __device__ std::byte* operator[](uint32_t piece) const { return data + piece * bytes; }
};

// The buffers of a block, which leave nothing of its shared memory.
struct BulkBuffers {
  static constexpr int kBuffers = kWorkersPerSm;

  alignas(1024) std::byte data[kBuffers][BulkPieces::kPieces][BulkPieces::kPieceBytes];
  uint64_t loaded[kBuffers][BulkPieces::kPieces];

  __device__ BulkPieces pieces(int buffer) { return {data[buffer][0], loaded[buffer]}; }
  // All buffers from `first` on as one, with larger pieces.
  __device__ BulkPieces joined(int first) {
    return {data[first][0], loaded[first], static_cast<uint32_t>(kBuffers - first) * BulkPieces::kPieceBytes};
  }
};

// The buffer of a worker beside the jobs of a compute block, in what those leave; of nothing where they leave nothing.
template <uint32_t kBytes>
struct InsideBuffer {
  alignas(128) std::byte data[BulkPieces::kPieces][kBytes];
  uint64_t loaded[BulkPieces::kPieces];

  __device__ BulkPieces pieces() { return {data[0], loaded, kBytes}; }
};
template <>
struct InsideBuffer<0> {};

class BulkCopier {
 public:
  // The pieces must not be used by anyone else; one thread calls this before the block synchronises.
  __device__ static void prepare(const BulkPieces& pieces) {
    for (int i = 0; i < BulkPieces::kPieces; ++i) ptx::mbarrier_init(&pieces.loaded[i], 1);
    barriers_before_use();
  }

  __device__ explicit BulkCopier(const BulkPieces& pieces) : pieces_(pieces) {}

  // Addresses and bytes are multiples of 16.
  __device__ void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
    pass(from, bytes, [&](uint64_t at, uint32_t count) { store(to + at, count); });
  }
  // The same, but fp32 numbers are added to those that are there, in the L2.  All copies and additions so far land
  // before.
  __device__ void add(float* to, const std::byte* from, uint64_t bytes) {
    finish();
    pass(from, bytes, [&](uint64_t at, uint32_t count) { add_piece(to + at / sizeof(float), count); });
  }

  // Pieces that went through the buffer.  Threads that take turns with it tell each other how many.
  __device__ uint32_t num_copied() const { return stores_; }
  __device__ void continue_at(uint32_t copied) { loads_ = stores_ = copied; }

  // Everything copied so far has left the buffer.
  __device__ void finish_reads() { ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{}); }

  // Everything copied so far is visible to this thread, so its next release publishes it.
  __device__ void finish() { ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{}); }

  // What copy() is made of: loads run ahead of stores, by kAhead at most.
  static constexpr int kAhead = 4;

  __device__ uint32_t piece_bytes(uint64_t left) const {
    return static_cast<uint32_t>(min_of<uint64_t>(left, pieces_.bytes));
  }

  __device__ void load(const std::byte* from, uint32_t bytes) {
    // The piece was last stored kPieces loads ago; at most kPieces - kAhead stores came after it.
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<BulkPieces::kPieces - kAhead>{});
    const uint32_t piece = loads_ % BulkPieces::kPieces;
    ++loads_;
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &pieces_.loaded[piece], bytes);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, pieces_[piece], from, bytes, &pieces_.loaded[piece]);
  }

  __device__ void store(std::byte* to, uint32_t bytes) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, to, loaded_piece(), bytes);
    ptx::cp_async_bulk_commit_group();
  }

 private:
  // send(first, bytes) for each piece, while the next ones are loaded.
  template <class Send>
  __device__ void pass(const std::byte* from, uint64_t bytes, const Send& send) {
    uint64_t loaded = 0;
    for (uint64_t sent = 0; sent < bytes; sent += pieces_.bytes) {
      while (loaded < bytes && loaded < sent + uint64_t{kAhead} * pieces_.bytes) {
        load(from + loaded, piece_bytes(bytes - loaded));
        loaded += pieces_.bytes;
      }
      send(sent, piece_bytes(bytes - sent));
    }
  }
  __device__ const std::byte* loaded_piece() {
    const uint32_t piece = stores_ % BulkPieces::kPieces;
    wait_phase(&pieces_.loaded[piece], stores_ / BulkPieces::kPieces & 1);
    ++stores_;
    return pieces_[piece];
  }
  __device__ void add_piece(float* to, uint32_t bytes) {
    const auto* const numbers = reinterpret_cast<const float*>(loaded_piece());
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, to, numbers, bytes);
    ptx::cp_async_bulk_commit_group();
  }

  const BulkPieces pieces_;
  uint32_t loads_ = 0;
  uint32_t stores_ = 0;
};

}  // namespace mk::sm90
