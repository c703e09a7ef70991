// SPDX-License-Identifier: MIT
// transport/fabric_port.h — one rank's end of a fabric before it is connected.
//
// Every rank opens a port and tells the others its address, by whatever way ranks find each other; then all
// connect at the same time.  A port is used by the thread that makes the World, the Fabric by the proxy's; the
// port outlives the Fabric.  A rank connects to the ranks of its rail, nobody else.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/world_shape.h"
#include "transport/fabric.h"
#include "transport/rdma_settings.h"
#include "transport/secret.h"
#include "transport/staged_settings.h"
#include "transport/tcp_settings.h"

namespace mk {

class Mover;

struct PortSettings {
  WorldShape world;
  int rank = 0;
  Secret secret{};  // random, the same on all ranks of a World

  // Longest time to connect, and longest time a connected peer may take nothing.
  std::chrono::milliseconds deadline{30'000};

  // The network interface that peers are told of; empty: all that are up.
  std::string interface;

  // Of the device whose memory the windows are, for a fabric that reaches them there (FabricKind::reach); null: they
  // are host memory.  It outlives port and Fabric, whose thread uses it.
  Mover* mover = nullptr;

  TcpSettings tcp;
  RdmaSettings rdma;
  StagedSettings staged;
};

class FabricPort {
 public:
  virtual ~FabricPort() = default;

  // What the other ranks need to reach this one: bytes that mean something to their ports only.
  virtual std::string address() const = 0;

  // What was chosen to carry the bytes, for people.
  virtual std::string describe() const { return {}; }

  // Once.  `addresses` has one per rank; those off the rail are not looked at.  Throws Error if a peer is not there
  // within the deadline.
  virtual std::unique_ptr<Fabric> connect(const std::vector<std::string>& addresses) = 0;

  // What peers must know to put into this rank's window, which the registry has by now; a NIC registers it here.
  virtual std::string share_window(uint32_t window) = 0;

  // What share_window said at `rank`; before any put goes there.
  virtual void learn_window(uint32_t window, int rank, const std::string& key) = 0;
};

// A port of a fabric that looks windows up in the registry and needs nothing else.
class KeylessPort : public FabricPort {
 public:
  std::string share_window(uint32_t) override { return {}; }
  void learn_window(uint32_t, int, const std::string&) override {}
};

}  // namespace mk
