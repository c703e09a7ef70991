// SPDX-License-Identifier: MIT
// transport/shm_port.h — one rank's end of the shm fabric before it is connected.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/fabric_port.h"
#include "transport/shm_seat.h"
#include "transport/shm_windows.h"
#include "transport/window_registry.h"

namespace mk {

class ShmPort : public FabricPort {
 public:
  ShmPort(const PortSettings& settings, const WindowRegistry& windows);

  std::string address() const override { return address_; }
  std::unique_ptr<Fabric> connect(const std::vector<std::string>& addresses) override;
  std::string share_window(uint32_t window) override;
  void learn_window(uint32_t window, int rank, const std::string& key) override;

 private:
  bool is_on_rail(int rank) const;  // of another node

  PortSettings settings_;
  const WindowRegistry& windows_;
  ShmWindows mapped_;
  std::unique_ptr<ShmSeat> seat_;
  std::string address_;
};

// Empty if this machine has shared memory with locks.
std::string why_no_shm();

}  // namespace mk
