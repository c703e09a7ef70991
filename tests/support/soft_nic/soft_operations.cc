// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_operations.cc — posting and polling: the functions that verbs.h finds in a context or a
// queue pair.
#include <cerrno>

#include "tests/support/soft_nic/soft_context.h"

namespace mk::test::soft {
namespace {

SoftQp& soft(ibv_qp* qp) { return *reinterpret_cast<SoftQp*>(qp); }
SoftQp& soft(ibv_qp_ex* qp) { return *reinterpret_cast<SoftQp*>(qp); }

void set_piece(Send& send, const ibv_sge& piece) {
  send.from = reinterpret_cast<const std::byte*>(piece.addr);
  send.bytes = piece.length;
  send.lkey = piece.lkey;
}

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  const Held nic(qp->context);
  for (; request != nullptr; request = request->next) {
    *bad = request;
    const bool is_known = request->opcode == IBV_WR_SEND || request->opcode == IBV_WR_RDMA_WRITE ||
                          request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    // As on EFA, where only sends can be posted this way.
    if (!is_known || (soft(qp).kind == QpKind::kSrd && request->opcode != IBV_WR_SEND)) return EINVAL;
    if (request->num_sge > 1) return EINVAL;
    Send send;
    send.id = request->wr_id;
    send.opcode = request->opcode;
    send.is_signalled = (request->send_flags & IBV_SEND_SIGNALED) != 0;
    send.immediate = request->imm_data;
    if (request->num_sge == 1) set_piece(send, *request->sg_list);
    send.to = request->wr.rdma.remote_addr;
    send.rkey = request->wr.rdma.rkey;
    send.gid = soft(qp).peer_gid;
    send.to_qp = soft(qp).peer_qp;
    if (const int error = nic->post(soft(qp), {send}); error != 0) return error;
  }
  nic->advance();
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  const Held nic(qp->context);
  for (; request != nullptr; request = request->next) {
    *bad = request;
    Receive receive{request->wr_id, nullptr, 0};
    if (request->num_sge > 0) {
      receive.to = reinterpret_cast<std::byte*>(request->sg_list->addr);
      receive.bytes = request->sg_list->length;
    }
    if (const int error = nic->post(soft(qp), receive); error != 0) return error;
  }
  return 0;
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* completions) {
  const Held nic(cq->context);
  nic->advance();
  SoftCq& from = *reinterpret_cast<SoftCq*>(cq);
  if (from.is_overrun) return -1;
  int num = 0;
  for (; num < most && !from.entries.empty(); ++num) {
    completions[num] = from.entries.front().completion;
    nic->reclaim(completions[num].qp_num, from.entries.front().reclaims);
    from.entries.pop_front();
  }
  return num;
}

int req_notify_cq(ibv_cq*, int) { return EOPNOTSUPP; }

void start(ibv_qp_ex* qp) { soft(qp).staged.clear(); }

Send& stage(ibv_qp_ex* qp, ibv_wr_opcode opcode) {
  Send send;
  send.id = qp->wr_id;
  send.opcode = opcode;
  send.is_signalled = true;  // SRD has no other
  return soft(qp).staged.emplace_back(send);
}

void write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t to, __be32 immediate) {
  Send& send = stage(qp, IBV_WR_RDMA_WRITE_WITH_IMM);
  send.rkey = rkey;
  send.to = to;
  send.immediate = immediate;
}

void write(ibv_qp_ex* qp, uint32_t rkey, uint64_t to) {
  Send& send = stage(qp, IBV_WR_RDMA_WRITE);
  send.rkey = rkey;
  send.to = to;
}

void send(ibv_qp_ex* qp) { stage(qp, IBV_WR_SEND); }

void set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t bytes) {
  set_piece(soft(qp).staged.back(), {address, bytes, lkey});
}

void set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t to_qp, uint32_t queue_key) {
  Send& send = soft(qp).staged.back();
  send.gid = reinterpret_cast<SoftAh*>(ah)->gid;
  send.to_qp = to_qp;
  send.queue_key = queue_key;
}

int complete(ibv_qp_ex* qp) {
  const Held nic(qp->qp_base.context);
  const int error = nic->post(soft(qp), std::move(soft(qp).staged));
  if (error == 0) nic->advance();
  return error;
}

void abort_staged(ibv_qp_ex* qp) { soft(qp).staged.clear(); }

}  // namespace

void fill_operations(verbs_context& context) {
  context.context.ops.post_send = post_send;
  context.context.ops.post_recv = post_recv;
  context.context.ops.poll_cq = poll_cq;
  context.context.ops.req_notify_cq = req_notify_cq;
}

void fill_work_requests(ibv_qp_ex& qp) {
  qp.wr_start = start;
  qp.wr_rdma_write_imm = write_imm;
  qp.wr_rdma_write = write;
  qp.wr_send = send;
  qp.wr_set_sge = set_sge;
  qp.wr_set_ud_addr = set_ud_addr;
  qp.wr_complete = complete;
  qp.wr_abort = abort_staged;
}

}  // namespace mk::test::soft

extern "C" ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return reinterpret_cast<ibv_qp_ex*>(qp); }
