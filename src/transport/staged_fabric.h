// SPDX-License-Identifier: MIT
// transport/staged_fabric.h — any fabric, carrying windows that it cannot reach: by way of slots in host memory.
//
//   window → outgoing slot → inner fabric → incoming slot → window, then its signal
//       Mover::read       one put           Mover::land
//
// The inner fabric moves slots and counts them, and knows no other memory.  `put` only queues; `poll` moves everything.
// A fabric that fails gives its inner fabric up, so that its peers fail as well instead of waiting for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/fabric.h"
#include "transport/fabric_port.h"
#include "transport/staged_receiver.h"
#include "transport/staged_sender.h"

namespace mk {

class StagedFabric : public Fabric {
 public:
  // `slots` of this rank, and in which window the inner fabric has them.  They, `windows` and `mover` outlive it.
  struct Slots {
    StagedLayout layout;
    std::byte* memory;
    uint32_t window;
  };
  StagedFabric(const PortSettings& settings, const WindowRegistry& windows, const Slots& slots, Mover& mover,
               std::unique_ptr<Fabric> inner);
  ~StagedFabric() override;

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return failure_; }
  void nap(std::chrono::microseconds most) override;

 private:
  struct Peer {
    StagedSender sender;
    StagedReceiver receiver;
  };
  Peer* find_peer(uint32_t rank);
  void take_copies();
  bool is_copying() const;
  void wait_for_copies() noexcept;
  PutResult move(std::vector<uint64_t>& completed);
  PutResult fail(std::string why);

  int rank_;
  const WindowRegistry& windows_;
  Mover& mover_;
  std::unique_ptr<Fabric> inner_;  // none after a failure
  std::vector<Peer> peers_;        // by number
  std::vector<uint64_t> done_;     // what the Mover, or the inner fabric, has just done
  std::string failure_;
};

}  // namespace mk
