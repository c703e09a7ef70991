// SPDX-License-Identifier: MIT
// transport/mover_cuda.h — a Mover on a GPU: its copy engines, a stream for each direction.
//
// What is asked for between two polls is one batch in each direction: its copies, then the new totals of its signals,
// then an event that tells when it is done.  The Mover keeps each signal's total (the sum of amounts, or the largest
// stamp), because nobody else pays these signals.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <unordered_map>
#include <vector>

#include "base/cuda_api.h"
#include "transport/mover.h"

namespace mk {

class CudaMover : public Mover {
 public:
  struct Lane {  // streams that outlive the Mover
    cudaStream_t out = nullptr;
    cudaStream_t in = nullptr;
  };

  // On the current device.
  explicit CudaMover(const Lane& lane);
  ~CudaMover() override;

  void pin(std::byte* memory, size_t bytes) override;
  void unpin(std::byte* memory) noexcept override;
  void read(std::byte* to_host, const std::byte* from_window, uint64_t bytes, uint64_t token) override;
  void land(std::byte* to_window, const std::byte* from_host, uint64_t bytes, uint64_t* signal, const Payment& payment,
            uint64_t token) override;
  void poll(std::vector<uint64_t>& done) override;
  GpuMemory find(const std::byte* window, uint64_t bytes) override;
  void settle() override;
  std::string why_not_settled() const override;

 private:
  // What NICs write, and when other GPUs of the node see it.
  enum class NicWrites {
    kOrdered,  // before whatever their completion causes
    kFlushed,  // after a call that waits for it
    kUnknown,
  };
  struct Batch {
    cudaEvent_t done = nullptr;
    std::vector<uint64_t> tokens;
  };
  struct Direction {
    cudaStream_t stream = nullptr;
    std::vector<uint64_t> asked;  // since the last poll
    std::deque<Batch> under_way;
  };

  void pay(uint64_t* signal, const Payment& payment);
  void write_signals();
  void begin_batch(Direction& direction);
  void collect(Direction& direction, std::vector<uint64_t>& done);
  cudaEvent_t idle_event();
  void warm_up();
  void look_at_device();
  void release() noexcept;

  int device_ = 0;
  NicWrites nic_writes_ = NicWrites::kUnknown;
  Direction out_, in_;
  std::unordered_map<uint64_t*, uint64_t> totals_;
  std::vector<CUstreamBatchMemOpParams> unwritten_;
  std::vector<cudaEvent_t> idle_events_;
};

}  // namespace mk
