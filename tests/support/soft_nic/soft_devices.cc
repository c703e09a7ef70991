// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_devices.cc — devices: which there are, opening them, and what they say of themselves.
#include <cerrno>
#include <cstring>
#include <random>

#include "tests/support/soft_nic/soft_context.h"

namespace mk::test::soft {
namespace {

constexpr int kDevices = 4;

// Two of each fabric.
ibv_device* devices() {
  static ibv_device all[kDevices] = {};
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr const char* kNames[kDevices] = {"soft_0", "soft_1", "soft_efa_0", "soft_efa_1"};
    for (int i = 0; i < kDevices; ++i) {
      std::strcpy(all[i].name, kNames[i]);
      all[i].node_type = is_efa(&all[i]) ? IBV_NODE_UNSPECIFIED : IBV_NODE_CA;
      all[i].transport_type = is_efa(&all[i]) ? IBV_TRANSPORT_UNSPECIFIED : IBV_TRANSPORT_IB;
    }
  });
  return all;
}

Gid random_gid() {
  Gid gid{0xfe, 0x80};
  std::random_device random;
  for (size_t i = 8; i < gid.size(); ++i) gid[i] = static_cast<uint8_t>(random());
  return gid;
}

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t bytes) {
  if (port != 1) return EINVAL;
  ibv_port_attr found{};
  found.state = nic_of(context).is_up() ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  found.max_mtu = found.active_mtu = IBV_MTU_4096;
  found.gid_tbl_len = is_efa(context->device) ? 1 : 2;
  found.max_msg_sz = nic_of(context).most_message_bytes();
  found.pkey_tbl_len = 1;
  found.link_layer = is_efa(context->device) ? IBV_LINK_LAYER_UNSPECIFIED : IBV_LINK_LAYER_ETHERNET;
  std::memcpy(attributes, &found, std::min(bytes, sizeof(found)));
  return 0;
}

}  // namespace

bool is_efa(const ibv_device* device) { return std::strstr(device->name, "efa") != nullptr; }

}  // namespace mk::test::soft

using namespace mk::test::soft;

extern "C" {

ibv_device** ibv_get_device_list(int* num_devices) {
  auto** const list = new ibv_device*[kDevices + 1]();
  for (int i = 0; i < kDevices; ++i) list[i] = devices() + i;
  if (num_devices != nullptr) *num_devices = kDevices;
  return list;
}

void ibv_free_device_list(ibv_device** list) { delete[] list; }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = new SoftContext(device, random_gid());
  fill_operations(context->verbs);
  context->verbs.query_port = query_port;
  return &context->verbs.context;
}

int ibv_close_device(ibv_context* context) {
  delete reinterpret_cast<SoftContext*>(verbs_get_ctx(context));
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_qp = 1 << 16;
  attributes->max_qp_wr = static_cast<int>(nic_of(context).most_work_requests());
  attributes->max_sge = 1;
  attributes->max_cqe = kMostCompletions;
  attributes->max_mr_size = ~uint64_t{0};
  attributes->atomic_cap = is_efa(context->device) ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
  return 0;
}

// Both entries of an Ethernet port are the same address, as RoCE v1 and as v2.
int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t, size_t) {
  if (port != 1 || index >= (is_efa(context->device) ? 1u : 2u)) return EINVAL;
  *entry = {};
  std::memcpy(entry->gid.raw, nic_of(context).gid().data(), sizeof(entry->gid.raw));
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = is_efa(context->device) ? IBV_GID_TYPE_IB
                    : index == 0            ? IBV_GID_TYPE_ROCE_V1
                                            : IBV_GID_TYPE_ROCE_V2;
  return 0;
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_LOC_PROT_ERR: return "local protection error";
    case IBV_WC_WR_FLUSH_ERR: return "Work Request Flushed Error";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    case IBV_WC_REM_INV_REQ_ERR: return "remote invalid request error";
    case IBV_WC_RETRY_EXC_ERR: return "transport retry counter exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "RNR retry counter exceeded";
    default: return "another error";
  }
}

}  // extern "C"
