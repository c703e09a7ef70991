// SPDX-License-Identifier: MIT
// bench/paced_fabric.h — a GPU's loopback fabric at the speed of a NIC.
//
// A rank's puts leave one after the other, each for the time its bytes take; a put is delivered and completed
// a latency after its last byte has left, or later if its bytes have not landed by then.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/link_clock.h"
#include "bench/pace_spec.h"
#include "runtime/world_state.h"
#include "transport/loopback_cuda.h"

namespace mk::bench {

// A stream of its own, for signals: nothing that waits is ever put on it.
class Bell {
 public:
  Bell();
  Bell(const Bell&) = delete;
  ~Bell();
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class PacedFabric : public Fabric {
 public:
  PacedFabric(std::unique_ptr<CudaLoopbackFabric> inner, double ns_per_byte, cudaStream_t bell);

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return inner_->failure(); }

 private:
  struct Scheduled {
    Command command;
    uint64_t ticket;
    uint64_t leaves;  // ns: when the link turns to it
    uint64_t due;
  };

  PutResult pass_on(uint64_t now);

  std::unique_ptr<CudaLoopbackFabric> inner_;
  LinkClock link_;
  cudaStream_t bell_;
  std::deque<Scheduled> waiting_;
  std::deque<Scheduled> passed_on_;
  std::vector<uint64_t> landed_;  // poll's scratch
  size_t num_landed_ = 0;         // of those passed on, which land in order
};

// For make_local_world; `ns_per_byte` 0: not paced.  The Bell outlives the World.
runtime::FabricHook fabric_hook(double ns_per_byte, PutPath path, const Bell& bell);

}  // namespace mk::bench
