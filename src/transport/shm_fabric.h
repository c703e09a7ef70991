// SPDX-License-Identifier: MIT
// transport/shm_fabric.h — a fabric between processes of one machine: the proxy copies into windows of others.
//
// A put has landed when it is complete, and needs nothing of the peer.  A fabric that fails gives up its seat, so that
// its peers fail as well instead of waiting for it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/fabric.h"
#include "transport/shm_seat.h"
#include "transport/shm_windows.h"
#include "transport/window_registry.h"

namespace mk {

class ShmFabric : public Fabric {
 public:
  // `own` holds the windows of this rank, `others` those of its rail; both outlive the fabric.
  ShmFabric(int rank, const WindowRegistry& own, const ShmWindows& others, std::unique_ptr<ShmSeat> seat,
            std::map<int, ShmGuest> guests);

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return failure_; }

 private:
  using Clock = std::chrono::steady_clock;

  PutResult fail(std::string why);

  int rank_;
  const WindowRegistry& own_;
  const ShmWindows& others_;
  std::unique_ptr<ShmSeat> seat_;
  std::map<int, ShmGuest> guests_;  // of the rail's ranks
  Clock::time_point next_look_;
  std::vector<uint64_t> done_;
  std::string failure_;
};

}  // namespace mk
