// SPDX-License-Identifier: MIT
// transport/loopback_cuda.h — a fabric inside one GPU: the copy engines play the NIC.
//
// A put goes out to pinned memory and back in, on a lane, a stream that several ranks' fabrics share,
// followed by a write of the signal's new total.  The total is kept here: only one rank's puts pay a signal
// (core/signal.h).
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/fabric.h"
#include "transport/resolved_put.h"
#include "transport/window_registry.h"

namespace mk {

class CudaLoopbackFabric : public Fabric {
 public:
  CudaLoopbackFabric(const WindowRegistry& windows, int rank, cudaStream_t lane);
  ~CudaLoopbackFabric() override;

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return failure_; }

 private:
  struct InFlight {
    cudaEvent_t landed;
    uint64_t ticket;
  };

  void issue(const Command& command, uint64_t ticket);
  void copy_beside_kernels(const ResolvedPut& put);

  const WindowRegistry& windows_;
  int rank_;
  int device_ = 0;
  cudaStream_t lane_;
  void* bounce_ = nullptr;
  std::unordered_map<uint64_t*, uint64_t> totals_;
  std::deque<InFlight> in_flight_;
  std::vector<cudaEvent_t> idle_events_;
  std::string failure_;
};

}  // namespace mk
