// SPDX-License-Identifier: MIT
// target/sm90/gemm_store.cuh — the store job: one thread sends finished boxes of C where they belong.
#pragma once

#include "target/sm90/gemm_shared.cuh"
#include "target/sm90/result_boxes.h"

namespace mk::sm90 {

template <class Config, class Element>
class StoreJob {
 public:
  __device__ explicit StoreJob(GemmShared<Config, Element>& shared) : shared_(shared) {}

  // Calls send_box(box, row, col), with row and col inside the tile's result, for each of its boxes (result_boxes.h) in
  // turn; it issues bulk copies out of the box.  False: the tile is void, nothing was sent.  `Results` is that of the
  // maths job that made the tile.
  template <class Results = ResultBoxes<Config>, class SendBox>
  __device__ bool store(SendBox&& send_box) {
    bool is_void = false;
    for (int box = 0; box < Results::kPerPart; ++box, ++cursor_) {
      for (int consumer = 0; consumer < Config::kConsumers; ++consumer) {
        wait_phase(&shared_.c_full[consumer][cursor_.slot], cursor_.phase);
        is_void = is_void || shared_.void_from <= tiles_;
        if (!is_void) {
          send_box(shared_.c[consumer][cursor_.slot], Results::row_of(consumer, box), Results::col_of(consumer, box));
        }
        ptx::cp_async_bulk_commit_group();
        free_all_but_last(&shared_.c_empty[consumer][cursor_.slot]);
      }
    }
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
    free_all_but_last(nullptr);
    ++tiles_;
    return !is_void;
  }

  // The same for the last tile of the block.
  template <class Results = ResultBoxes<Config>, class SendBox>
  __device__ bool store_last(SendBox&& send_box) {
    if constexpr (!Results::kLastThroughA) return store<Results>(send_box);
    bool is_void = false;
#pragma unroll
    for (int consumer = 0; consumer < Config::kConsumers; ++consumer) {
#pragma unroll
      for (int box = 0; box < Results::kPerPart; ++box) {
        wait_phase(&shared_.last_full[consumer][box], 0);
        is_void = shared_.void_from <= tiles_;
        if (!is_void) {
          send_box(last_box(shared_, consumer, box), Results::row_of(consumer, box), Results::col_of(consumer, box));
        }
      }
    }
    ptx::cp_async_bulk_commit_group();
    return !is_void;
  }

  // One or the other: `after` more tiles of the block follow.
  template <class Results = ResultBoxes<Config>, class SendBox>
  __device__ bool store_one(int64_t after, SendBox&& send_box) {
    return after > 0 ? store<Results>(send_box) : store_last<Results>(send_box);
  }

  // Everything sent so far has been read: shared memory may go.  It lands before the kernel ends.
  __device__ void finish_reads() { ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{}); }

  // Everything sent so far has landed and is visible to this thread, so its next release publishes it.
  __device__ void finish() { ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{}); }

 private:
  // The copies before the last have read their box: its buffer may be filled again.
  __device__ void free_all_but_last(uint64_t* last) {
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<1>{});
    if (unread_ != nullptr) ptx::mbarrier_arrive(unread_);
    unread_ = last;
  }

  GemmShared<Config, Element>& shared_;
  Cursor<Config::kStoreBuffers> cursor_;
  uint64_t* unread_ = nullptr;
  int64_t tiles_ = 0;
};

}  // namespace mk::sm90
