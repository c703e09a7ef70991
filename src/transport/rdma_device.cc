// SPDX-License-Identifier: MIT
// transport/rdma_device.cc — see rdma_device.h.
#include "transport/rdma_device.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace mk {
namespace {

// Null, not empty, where the kernel has no RDMA; that may not be freed.
class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&num_)) {}
  DeviceList(const DeviceList&) = delete;
  ~DeviceList() {
    if (list_ != nullptr) ibv_free_device_list(list_);
  }
  ibv_device** begin() const { return list_; }
  ibv_device** end() const { return list_ == nullptr ? nullptr : list_ + num_; }

 private:
  int num_ = 0;
  ibv_device** list_;
};

// A port "mlx5_0:2" is its device's second; 0 stands for any.
std::pair<std::string, int> split_name(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos) return {name, 0};
  const int port = std::atoi(name.c_str() + colon + 1);
  check_arg(port >= 1 && port <= 255, "the RDMA port is '{}'; after the colon its number is due", name);
  return {name.substr(0, colon), port};
}

bool is_ipv4(const ibv_gid& gid) { return IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(gid.raw)); }

// What a port prefers to be reached by; the higher the better.
int worth_of(const ibv_gid_entry& entry) {
  if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) return is_ipv4(entry.gid) ? 3 : 2;
  return 1;
}

const char* name_of(uint32_t gid_type) {
  constexpr const char* kNames[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
  return gid_type < std::size(kNames) ? kNames[gid_type] : "of an unknown kind";
}

bool is_active(ibv_context* context, int port) {
  ibv_port_attr attributes{};
  return ibv_query_port(context, static_cast<uint8_t>(port), &attributes) == 0 && attributes.state == IBV_PORT_ACTIVE;
}

}  // namespace

void throw_rdma(const std::string& what, int error) {
  throw Error(ErrorCode::kFabric, fmt::format("{}: {}", what, std::strerror(error)));
}

std::vector<std::string> rdma_device_names(DeviceFilter serves) {
  std::vector<std::string> names;
  for (ibv_device* device : DeviceList()) {
    if (serves(device)) names.emplace_back(ibv_get_device_name(device));
  }
  return names;
}

RdmaDevice::RdmaDevice(const std::string& name, const RdmaSettings& settings, DeviceFilter serves) {
  const auto [device, port] = split_name(name);
  open(device, serves);
  choose_port(port);
  choose_gid(settings.gid_index);
  if (ibv_query_device(context_.get(), &attributes_) != 0) throw_rdma("what " + name_ + " can do is not told", errno);
  pd_.reset(ibv_alloc_pd(context_.get()));
  if (pd_ == nullptr) throw_rdma("no protection domain can be had on " + name_, errno);
}

void RdmaDevice::open(const std::string& name, DeviceFilter serves) {
  const DeviceList devices;
  int error = 0;
  for (ibv_device* device : devices) {
    if (!serves(device) || (!name.empty() && name != ibv_get_device_name(device))) continue;
    context_.reset(ibv_open_device(device));
    if (context_ == nullptr) error = errno;
    if (context_ == nullptr || (name.empty() && !is_active(context_.get(), 1))) continue;
    name_ = ibv_get_device_name(device);
    return;
  }
  context_.reset();
  if (error != 0) throw_rdma(fmt::format("the RDMA device '{}' cannot be opened", name), error);
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the RDMA device is '{}'; {}there are: {}", name, name.empty() ? "none is active; " : "",
                          fmt::join(rdma_device_names(serves), ", ")));
}

void RdmaDevice::choose_port(int asked) {
  ibv_device_attr attributes{};
  if (ibv_query_device(context_.get(), &attributes) != 0) throw_rdma("what " + name_ + " can do is not told", errno);
  const int most = attributes.phys_port_cnt;
  check_arg(asked <= most, "port {} of {} was asked for; it has {}", asked, name_, most);
  port_ = static_cast<uint8_t>(asked);
  for (int port = 1; asked == 0 && port_ == 0 && port <= most; ++port) {
    if (is_active(context_.get(), port)) port_ = static_cast<uint8_t>(port);
  }
  if (port_ == 0 || !is_active(context_.get(), port_)) {
    throw Error(ErrorCode::kUnavailable, fmt::format("{} has no active port{}", name_,
                                                     asked == 0 ? "" : fmt::format(" with the number {}", asked)));
  }
  ibv_query_port(context_.get(), port_, &port_attributes_);
}

void RdmaDevice::choose_gid(int asked) {
  check_arg(asked >= -1 && asked < port_attributes_.gid_tbl_len, "gid_index is {}; {} has 0 to {}, and -1 chooses",
            asked, name_, port_attributes_.gid_tbl_len - 1);
  int best = 0;
  for (int i = 0; i < port_attributes_.gid_tbl_len; ++i) {
    if (asked != -1 && i != asked) continue;
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context_.get(), port_, static_cast<uint32_t>(i), &entry, 0) != 0) continue;  // no address
    const int worth = is_ethernet() ? worth_of(entry) : 1;
    if (worth <= best) continue;
    best = worth;
    gid_index_ = static_cast<uint8_t>(i);
    gid_ = entry.gid;
    gid_kind_ = name_of(entry.gid_type);
  }
  if (best == 0) {
    throw Error(ErrorCode::kUnavailable, fmt::format("{} port {} has no address (gid){}", name_, port_,
                                                     asked == -1 ? "" : fmt::format(" at index {}", asked)));
  }
}

void RdmaDevice::make_cq(int entries) {
  check_arg(entries <= attributes_.max_cqe,
            "the queues of {} need {} completions and it has {}; lower depth or queues of the RDMA settings "
            "(MKERNEL_QUEUE_DEPTH)",
            name_, entries, attributes_.max_cqe);
  cq_.reset(ibv_create_cq(context_.get(), entries, nullptr, nullptr, 0));
  if (cq_ == nullptr) throw_rdma("no completion queue can be had on " + name_, errno);
}

std::string RdmaDevice::describe() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid_.raw, text, sizeof(text));
  return fmt::format("{} port {}, gid index {} ({}, {}), mtu {}", name_, port_, gid_index_, gid_kind_, text,
                     128 << port_attributes_.active_mtu);
}

}  // namespace mk
