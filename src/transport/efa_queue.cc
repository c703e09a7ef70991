// SPDX-License-Identifier: MIT
// transport/efa_queue.cc — see efa_queue.h.
#include "transport/efa_queue.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <infiniband/efadv.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "mkernel/error.h"
#include "transport/efa_capability.h"

namespace mk {
namespace {

constexpr uint8_t kForever = 7;  // what has no room at the peer is sent again until it has

efadv_device_attr attributes_of(const RdmaDevice& device) {
  efadv_device_attr attributes{};
  if (const int error = efadv_query_device(device.context(), &attributes, sizeof(attributes)); error != 0) {
    throw_rdma("what " + device.name() + " can do is not told", error);
  }
  return attributes;
}

}  // namespace

EfaQueue::EfaQueue(const RdmaDevice& device, const RdmaDepths& depths) : RdmaQueue(device) {
  if (!may_write(attributes_of(device))) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("the EFA device {} cannot write into a peer's memory (RDMA write)", device.name()));
  }
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = device.cq();
  wanted.qp_type = IBV_QPT_DRIVER;
  wanted.cap.max_send_wr = static_cast<uint32_t>(depths.sends);
  wanted.cap.max_recv_wr = static_cast<uint32_t>(depths.receives);
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.pd = device.pd();
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  efadv_qp_init_attr srd{};
  srd.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
  adopt(efadv_create_qp_ex(device.context(), &wanted, &srd, sizeof(srd)), std::random_device()() & 0x7fffffff);
  make_ready();
}

void EfaQueue::make_ready() {
  const auto modify = [&](ibv_qp_attr attributes, int mask) {
    if (const int error = ibv_modify_qp(qp(), &attributes, mask); error != 0) {
      throw_rdma(fmt::format("a queue pair of {} cannot become ready", device_.describe()), error);
    }
  };
  ibv_qp_attr attributes{};
  attributes.port_num = device_.port();
  attributes.qkey = address_.secret;
  attributes.rnr_retry = kForever;
  attributes.qp_state = IBV_QPS_INIT;
  modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attributes.qp_state = IBV_QPS_RTR;
  modify(attributes, IBV_QP_STATE);
  attributes.qp_state = IBV_QPS_RTS;
  const bool can_retry = (attributes_of(device_).device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY) != 0;
  modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN | (can_retry ? IBV_QP_RNR_RETRY : 0));
}

void EfaQueue::connect(const RdmaQueueAddress& peer) {
  peer_ = peer;
  ibv_ah_attr wanted{};
  wanted.is_global = 1;
  wanted.port_num = device_.port();
  wanted.grh.sgid_index = device_.gid_index();
  std::memcpy(wanted.grh.dgid.raw, peer.gid, sizeof(peer.gid));
  way_.reset(ibv_create_ah(device_.pd(), &wanted));
  if (way_ == nullptr) throw_rdma("no way to a peer can be had on " + device_.describe(), errno);
}

int EfaQueue::post(std::span<const RdmaPost> posts) {
  ibv_qp_ex* const queue = ibv_qp_to_qp_ex(qp());
  ibv_wr_start(queue);
  for (const RdmaPost& post : posts) {
    queue->wr_id = post.id;
    queue->wr_flags = IBV_SEND_SIGNALED;
    if (post.kind == RdmaPost::Kind::kSend) {
      ibv_wr_send(queue);
    } else {
      ibv_wr_rdma_write_imm(queue, post.rkey, post.to, htonl(post.immediate));
    }
    ibv_wr_set_sge(queue, post.lkey, reinterpret_cast<uintptr_t>(post.from), post.bytes);
    ibv_wr_set_ud_addr(queue, way_.get(), peer_.number, peer_.secret);
  }
  return ibv_wr_complete(queue);
}

bool is_efa_device(ibv_device* device) {
  if (device->transport_type != IBV_TRANSPORT_UNSPECIFIED) return false;
  const IbvContext context(ibv_open_device(device));
  efadv_device_attr attributes{};
  return context != nullptr && efadv_query_device(context.get(), &attributes, sizeof(attributes)) == 0;
}

uint64_t efa_most_bytes(const RdmaDevice& device) { return attributes_of(device).max_rdma_size; }

}  // namespace mk
