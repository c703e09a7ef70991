// SPDX-License-Identifier: MIT
// transport/loopback.h — a fabric inside one process: the proxy's thread copies.
#pragma once

#include <string>
#include <vector>

#include "transport/fabric.h"
#include "transport/window_registry.h"

namespace mk {

class LoopbackFabric : public Fabric {
 public:
  LoopbackFabric(const WindowRegistry& windows, int rank) : windows_(windows), rank_(rank) {}

  PutResult put(const Command& command, uint64_t ticket) override;
  PutResult poll(std::vector<uint64_t>& completed) override;
  std::string failure() const override { return failure_; }

 private:
  const WindowRegistry& windows_;
  int rank_;
  std::vector<uint64_t> done_;
  std::string failure_;
};

}  // namespace mk
