// SPDX-License-Identifier: MIT
// runtime/rails.h — how the ranks of this process reach those of other nodes: a fabric that was chosen and connected.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/world_shape.h"
#include "mkernel/options.h"
#include "runtime/device.h"
#include "runtime/members.h"
#include "transport/bootstrap.h"
#include "transport/fabric_port.h"
#include "transport/window_registry.h"

namespace mk::runtime {

class Rails {
 public:
  // All ranks of the world at the same time: through `bootstrap`, or with none if all of them are here.  Windows in a
  // device's memory are reached by the fabric's NICs if all ranks' can, else by way of host memory.  Throws Error.
  Rails(const WorldShape& shape, const Members& members, const Options& options, Bootstrap* bootstrap, Device& device,
        const WindowRegistry& windows);

  const std::string& fabric() const { return fabric_; }
  bool are_staged() const { return are_staged_; }  // by Movers: the fabric does not reach the windows
  // How it reaches them: "host memory", "GPU memory by DMA-BUF", or why it goes by way of host memory.
  const std::string& reach() const { return reach_; }

  // Once for each rank that is here.  The Rails outlive what they gave away.
  std::unique_ptr<Fabric> take(int rank) { return std::move(ends_[rank - members_.first].fabric); }

  // Whoever is on the rails learns how to put into this window, which the registry has by now.  It also keeps everybody
  // until all have it.
  void share_window(uint32_t window);

 private:
  struct End {
    std::unique_ptr<Mover> mover;  // null: windows are host memory, or the port has it
    std::unique_ptr<FabricPort> port;
    std::unique_ptr<Fabric> fabric;
  };

  // What all ranks say; `mine` is what those that are here do.
  std::vector<std::string> tell(const std::vector<std::string>& mine, const std::string& what) const;
  std::vector<std::vector<std::string>> choose_nics(const WorldShape& shape, const std::string& asked) const;
  void choose_reach(PortSettings settings, const std::vector<std::vector<std::string>>& nics, const Options& options,
                    Device& device);
  void connect(const std::vector<std::string>& addresses);

  Members members_;
  Bootstrap* bootstrap_;
  std::string fabric_;
  bool are_staged_ = false;
  std::string reach_ = "host memory";
  std::vector<End> ends_;  // of the ranks that are here
};

}  // namespace mk::runtime
