// SPDX-License-Identifier: MIT
// transport/verbs_queue.cc — see verbs_queue.h.
#include "transport/verbs_queue.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/check.h"

namespace mk {
namespace {

// No room for a message at the peer is no failure: the NIC tries again for ever, and the fabric has a deadline.
constexpr uint8_t kForever = 7;
constexpr uint8_t kNoRoomPause = 12;  // 0.64 ms, as InfiniBand counts

constexpr uint32_t kPacketNumbers = 1 << 24;

void modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask, const RdmaDevice& device, const char* state) {
  if (const int error = ibv_modify_qp(qp, &attributes, mask); error != 0) {
    throw_rdma(fmt::format("a queue pair of {} cannot become {}", device.describe(), state), error);
  }
}

}  // namespace

VerbsQueue::VerbsQueue(const RdmaDevice& device, const RdmaSettings& settings, const RdmaDepths& depths)
    : RdmaQueue(device), settings_(settings) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = device.cq();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = static_cast<uint32_t>(depths.sends);
  wanted.cap.max_recv_wr = static_cast<uint32_t>(depths.receives);
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  adopt(ibv_create_qp(device.pd(), &wanted), std::random_device()() % kPacketNumbers);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device.port();
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  modify(qp(), attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, device, "ready");
}

void VerbsQueue::connect(const RdmaQueueAddress& peer) {
  make_ready_to_receive(peer);
  make_ready_to_send();
}

void VerbsQueue::make_ready_to_receive(const RdmaQueueAddress& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(address_.mtu, peer.mtu));
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.secret;
  attributes.max_dest_rd_atomic = 1;  // unused, but some devices refuse 0
  attributes.min_rnr_timer = kNoRoomPause;
  attributes.ah_attr.port_num = device_.port();
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.sl = static_cast<uint8_t>(settings_.service_level);
  // An address beyond the subnet's own, which RoCE always has, goes along with every packet.
  ibv_gid gid{};
  std::memcpy(gid.raw, peer.gid, sizeof(peer.gid));
  if (device_.is_ethernet() || gid.global.subnet_prefix != device_.gid().global.subnet_prefix) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid = gid;
    attributes.ah_attr.grh.sgid_index = device_.gid_index();
    attributes.ah_attr.grh.hop_limit = 64;
    attributes.ah_attr.grh.traffic_class = static_cast<uint8_t>(settings_.traffic_class);
  }
  modify(qp(), attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER,
         device_, "ready to receive");
}

void VerbsQueue::make_ready_to_send() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = static_cast<uint8_t>(settings_.timeout);
  attributes.retry_cnt = static_cast<uint8_t>(settings_.retries);
  attributes.rnr_retry = kForever;
  attributes.sq_psn = address_.secret;
  attributes.max_rd_atomic = 1;
  modify(qp(), attributes,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
         device_, "ready to send");
}

int VerbsQueue::post(std::span<const RdmaPost> posts) {
  requests_.assign(posts.size(), {});
  pieces_.resize(posts.size());
  for (size_t i = 0; i < posts.size(); ++i) {
    const RdmaPost& post = posts[i];
    pieces_[i] = {reinterpret_cast<uintptr_t>(post.from), post.bytes, post.lkey};
    ibv_send_wr& request = requests_[i];
    request.wr_id = post.id;
    request.next = i + 1 < posts.size() ? &requests_[i + 1] : nullptr;
    request.sg_list = &pieces_[i];
    request.num_sge = 1;
    request.send_flags = post.is_signalled ? IBV_SEND_SIGNALED : 0;
    request.opcode = IBV_WR_SEND;
    if (post.kind == RdmaPost::Kind::kSend) continue;
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htonl(post.immediate);
    request.wr.rdma.remote_addr = post.to;
    request.wr.rdma.rkey = post.rkey;
  }
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp(), requests_.data(), &bad);
}

}  // namespace mk
