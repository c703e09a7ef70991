// SPDX-License-Identifier: MIT
// transport/rdma_fabric.h — a fabric over RDMA NICs, verbs or efa: it assumes no order of anything.
//
// `put` only queues; `poll` posts, looks at completions and pays the signals of what has landed.  Windows may be a
// GPU's if the NICs can register them: its bytes go from window to window, and its Mover pays the signals.  Peers are
// asked now and then whether they are there.  A fabric that ends or fails says goodbye, so that its peers fail as well
// instead of waiting for it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/fabric.h"
#include "transport/fabric_port.h"
#include "transport/rdma_receiver.h"
#include "transport/rdma_sender.h"
#include "transport/rdma_signals.h"

namespace mk {

class RdmaFabric : public Fabric {
 public:
  struct Peer {
    Peer(RdmaSender to, RdmaReceiver from) : sender(std::move(to)), receiver(std::move(from)) {}
    RdmaSender sender;
    RdmaReceiver receiver;
  };

  // Devices, keys and windows are the port's.  The senders' lanes are among `lanes`, connected.
  RdmaFabric(const PortSettings& settings, const WindowRegistry& windows, const RdmaDevices& devices,
             const RdmaKeys& keys, std::vector<std::unique_ptr<RdmaLane>> lanes, std::vector<Peer> peers);
  ~RdmaFabric() override;

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return failure_; }
  void nap(std::chrono::microseconds most) override;

 private:
  using Clock = RdmaSender::Clock;
  struct Route {
    RdmaLane* lane;
    Peer* peer;
  };

  void reap(std::vector<uint64_t>& completed);
  void take(const ibv_wc& completion, const Route& route, std::vector<uint64_t>& completed);
  void pay(const SignalPayment& payment, int peer);
  void check_peers();
  PutResult fail(std::string why);
  void close() noexcept;
  void wait_for_goodbyes();
  void wait_for_signals() noexcept;

  PortSettings settings_;
  const WindowRegistry& windows_;
  const RdmaDevices& devices_;
  const RdmaKeys& keys_;
  RdmaSignals signals_;
  std::vector<std::unique_ptr<RdmaLane>> lanes_;
  std::vector<Peer> peers_;
  std::vector<std::unordered_map<uint32_t, Route>> routes_;  // [device][queue pair]
  Clock::time_point now_ = Clock::now();
  std::vector<uint32_t> slots_;  // take's scratch
  std::string failure_;
};

}  // namespace mk
