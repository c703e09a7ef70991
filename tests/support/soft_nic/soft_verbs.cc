// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_verbs.cc — memory, queues and address handles: the functions that libibverbs exports.
#include <cerrno>
#include <cstring>

#include "tests/support/soft_nic/soft_context.h"

namespace mk::test::soft {
namespace {

SoftQp& soft(ibv_qp* qp) { return *reinterpret_cast<SoftQp*>(qp); }

ibv_mr* register_memory(ibv_pd* pd, void* address, size_t bytes, unsigned access) {
  if (bytes == 0) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const mr = new SoftMr;
  mr->base.context = pd->context;
  mr->base.pd = pd;
  mr->base.addr = address;
  mr->base.length = bytes;
  mr->access = access;
  const Held nic(pd->context);
  mr->base.lkey = mr->base.rkey = nic->next_key();
  nic->add(mr);
  return &mr->base;
}

}  // namespace

ibv_qp* make_qp(ibv_context* context, ibv_pd* pd, const ibv_qp_init_attr_ex& wanted, QpKind kind) {
  if (wanted.cap.max_send_wr > kMostWorkRequests || wanted.cap.max_recv_wr > kMostWorkRequests) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const qp = new SoftQp;
  ibv_qp& base = qp->base.qp_base;
  base.context = context;
  base.pd = pd;
  base.send_cq = wanted.send_cq;
  base.recv_cq = wanted.recv_cq;
  base.qp_type = wanted.qp_type;
  base.state = IBV_QPS_RESET;
  qp->kind = kind;
  qp->cap = wanted.cap;
  fill_work_requests(qp->base);
  Held(context)->add(qp);
  return &base;
}

}  // namespace mk::test::soft

using namespace mk::test::soft;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* const pd = new SoftPd;
  pd->base.context = context;
  return &pd->base;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  delete reinterpret_cast<SoftPd*>(pd);
  return 0;
}

// In parentheses because verbs.h has a macro of this name.
ibv_mr*(ibv_reg_mr)(ibv_pd* pd, void* address, size_t bytes, int access) {
  return register_memory(pd, address, bytes, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t bytes, uint64_t, unsigned access) {
  return register_memory(pd, address, bytes, access);
}

// There is no device memory here.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int ibv_dereg_mr(ibv_mr* mr) {
  auto* const soft_mr = reinterpret_cast<SoftMr*>(mr);
  Held(mr->context)->remove(soft_mr);
  delete soft_mr;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel, int) {
  auto* const cq = new SoftCq;
  cq->base.context = context;
  cq->base.channel = channel;
  cq->base.cq_context = cq_context;
  cq->base.cqe = entries;
  return &cq->base;
}

int ibv_destroy_cq(ibv_cq* cq) {
  delete reinterpret_cast<SoftCq*>(cq);
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  if (wanted->qp_type != IBV_QPT_RC || is_efa(pd->context->device)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_qp_init_attr_ex more{};
  more.send_cq = wanted->send_cq;
  more.recv_cq = wanted->recv_cq;
  more.cap = wanted->cap;
  more.qp_type = wanted->qp_type;
  return make_qp(pd->context, pd, more, QpKind::kRc);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* wanted, int mask) {
  const Held nic(qp->context);
  if ((mask & IBV_QP_AV) != 0) std::memcpy(soft(qp).peer_gid.data(), wanted->ah_attr.grh.dgid.raw, sizeof(Gid));
  if ((mask & IBV_QP_DEST_QPN) != 0) soft(qp).peer_qp = wanted->dest_qp_num;
  if ((mask & IBV_QP_QKEY) != 0) soft(qp).queue_key = wanted->qkey;
  if ((mask & IBV_QP_RNR_RETRY) != 0) soft(qp).no_room_tries = wanted->rnr_retry;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  if (wanted->qp_state == IBV_QPS_ERR) {
    nic->stop(soft(qp));
    return 0;
  }
  constexpr ibv_qp_state kNext[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};  // after reset, init, ready to receive
  if (qp->state > IBV_QPS_RTR || wanted->qp_state != kNext[qp->state]) return EINVAL;
  qp->state = wanted->qp_state;
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  Held(qp->context)->remove(&soft(qp));
  delete &soft(qp);
  return 0;
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* wanted) {
  auto* const ah = new SoftAh;
  ah->base.context = pd->context;
  ah->base.pd = pd;
  std::memcpy(ah->gid.data(), wanted->grh.dgid.raw, sizeof(Gid));
  return &ah->base;
}

int ibv_destroy_ah(ibv_ah* ah) {
  delete reinterpret_cast<SoftAh*>(ah);
  return 0;
}

}  // extern "C"
