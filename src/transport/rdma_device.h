// SPDX-License-Identifier: MIT
// transport/rdma_device.h — one port of an RDMA device, open: what verbs and efa share of it.
#pragma once

#include <string>
#include <vector>

#include "transport/rdma_handles.h"
#include "transport/rdma_settings.h"

namespace mk {

// Whether a fabric can use a device.
using DeviceFilter = bool (*)(ibv_device* device);

// The names of those there are.
std::vector<std::string> rdma_device_names(DeviceFilter serves);

class RdmaDevice {
 public:
  // `name` is that of a device or of a port; empty: the first device with an active port.  Throws Error.
  RdmaDevice(const std::string& name, const RdmaSettings& settings, DeviceFilter serves);

  // For all completions of this device; once.  Throws Error.
  void make_cq(int entries);

  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  ibv_cq* cq() const { return cq_.get(); }

  const std::string& name() const { return name_; }
  uint8_t port() const { return port_; }
  const ibv_port_attr& port_attributes() const { return port_attributes_; }
  const ibv_device_attr& attributes() const { return attributes_; }
  uint8_t gid_index() const { return gid_index_; }
  const ibv_gid& gid() const { return gid_; }
  bool is_ethernet() const { return port_attributes_.link_layer == IBV_LINK_LAYER_ETHERNET; }

  // "mlx5_0 port 1, gid index 3 (RoCE v2, ::ffff:10.0.0.1), mtu 4096"
  std::string describe() const;

 private:
  void open(const std::string& name, DeviceFilter serves);
  void choose_port(int asked);
  void choose_gid(int asked);

  std::string name_;
  IbvContext context_;
  IbvPd pd_;
  IbvCq cq_;
  ibv_device_attr attributes_{};
  uint8_t port_ = 0;
  ibv_port_attr port_attributes_{};
  uint8_t gid_index_ = 0;
  ibv_gid gid_{};
  const char* gid_kind_ = "";
};

// An Error about a call of libibverbs that said `error`.
[[noreturn]] void throw_rdma(const std::string& what, int error);

}  // namespace mk
