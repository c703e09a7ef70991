// SPDX-License-Identifier: MIT
// transport/loopback_cuda.h — a fabric inside one GPU: the copy engines play the NIC.
//
// A put goes out to pinned memory on one stream of a lane and back in on the other, slot by slot, so that both
// directions of PCIe are busy; then the signal's new total is written.  Small puts that wait together travel
// together.  Lanes are shared by several ranks' fabrics.  The fabric keeps each signal's total (the sum of amounts, or
// the largest stamp), because only one rank's puts pay a signal (core/signal.h).
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/cuda_api.h"
#include "base/cuda_copy.h"
#include "transport/fabric.h"
#include "transport/resolved_put.h"
#include "transport/window_registry.h"

namespace mk {

class CudaLoopbackFabric : public Fabric {
 public:
  struct Lane {
    cudaStream_t out = nullptr;
    cudaStream_t in = nullptr;
  };

  CudaLoopbackFabric(const WindowRegistry& windows, int rank, const Lane& lane);
  ~CudaLoopbackFabric() override;

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return failure_; }

 private:
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t filled = nullptr;
    cudaEvent_t emptied = nullptr;
  };
  struct Waiting {
    ResolvedPut put;
    uint64_t ticket;
  };
  struct InFlight {
    cudaEvent_t landed;
    std::vector<uint64_t> tickets;
  };

  void launch_waiting();
  void bounce();
  void pass_slot(Slot& slot, const std::vector<CopyPiece>& pieces);
  std::vector<CopyPiece> neighbours_joined() const;
  void pay(const ResolvedPut& put);
  void write_signals();
  cudaEvent_t idle_event();
  void release() noexcept;

  const WindowRegistry& windows_;
  int rank_;
  int device_ = 0;
  Lane lane_;
  void* bounce_ = nullptr;
  std::vector<Slot> slots_;
  size_t next_slot_ = 0;
  std::unordered_map<uint64_t*, uint64_t> totals_;
  std::vector<CUstreamBatchMemOpParams> unwritten_;
  std::vector<Waiting> waiting_;
  uint64_t waiting_bytes_ = 0;
  bool grows_ = false;  // a put came since the last poll: more may follow
  std::deque<InFlight> in_flight_;
  size_t num_in_flight_ = 0;  // puts
  std::vector<cudaEvent_t> idle_events_;
  std::string failure_;
};

}  // namespace mk
