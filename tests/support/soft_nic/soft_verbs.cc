// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_verbs.cc — memory, queues and address handles: the functions that libibverbs exports.
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/support/device_memory.h"
#include "tests/support/soft_nic/soft_context.h"

namespace mk::test::soft {
namespace {

constexpr uint64_t kPage = 4096;

SoftQp& soft(ibv_qp* qp) { return *reinterpret_cast<SoftQp*>(qp); }

ibv_mr* add_memory(ibv_pd* pd, uint64_t address, size_t bytes, unsigned access, SoftMr* mr) {
  mr->base.context = pd->context;
  mr->base.pd = pd;
  mr->base.addr = reinterpret_cast<void*>(address);
  mr->base.length = bytes;
  mr->access = access;
  const Held nic(pd->context);
  mr->base.lkey = mr->base.rkey = nic->next_key();
  nic->add(mr);
  return &mr->base;
}

// Whether the kernel has memory for the address: it reads a mask of signals there, and then finds that it was not told
// what to do with it.
bool is_there(uint64_t address) {
  constexpr int kNothingToDo = -1;
  const uint64_t word = address / sizeof(uint64_t) * sizeof(uint64_t);
  syscall(SYS_rt_sigprocmask, kNothingToDo, word, nullptr, sizeof(uint64_t));
  return errno != EFAULT;
}

// The kernel has no pages for what is a device's, but a module of its own may have.
ibv_mr* register_memory(ibv_pd* pd, void* address, size_t bytes, unsigned access) {
  const auto number = reinterpret_cast<uint64_t>(address);
  const bool is_device = touches_device_memory(number, bytes);
  std::byte* const there = is_device ? find_device_memory(number, bytes) : static_cast<std::byte*>(address);
  const bool is_known = is_device ? Held(pd->context)->settings().peermem != 0 && there != nullptr
                                  : bytes > 0 && is_there(number) && is_there(number + bytes - 1);
  if (bytes == 0 || !is_known) {
    errno = bytes == 0 ? EINVAL : EFAULT;
    return nullptr;
  }
  auto* const mr = new SoftMr;
  mr->memory = there;
  mr->is_device = is_device;
  return add_memory(pd, number, bytes, access, mr);
}

// Files play them.  That of a real GPU is none for a NIC in software, which could not order what it writes there.
bool is_real_dmabuf(int file) {
  struct statfs found {};
  return fstatfs(file, &found) == 0 && found.f_type == DMA_BUF_MAGIC;
}

ibv_mr* register_dmabuf(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t address, int file, unsigned access) {
  const uint64_t begin = offset / kPage * kPage;
  const bool is_refused = Held(pd->context)->settings().no_dmabuf != 0 || is_real_dmabuf(file);
  if (bytes == 0 || is_refused) {
    errno = is_refused ? EOPNOTSUPP : EINVAL;
    return nullptr;
  }
  const uint64_t mapping_bytes = offset - begin + bytes;
  void* const mapping =
      mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, static_cast<off_t>(begin));
  if (mapping == MAP_FAILED) return nullptr;
  auto* const mr = new SoftMr;
  mr->mapping = static_cast<std::byte*>(mapping);
  mr->mapping_bytes = mapping_bytes;
  mr->memory = mr->mapping + (offset - begin);
  mr->is_device = true;
  return add_memory(pd, address, bytes, access, mr);
}

}  // namespace

ibv_qp* make_qp(ibv_context* context, ibv_pd* pd, const ibv_qp_init_attr_ex& wanted, QpKind kind) {
  const uint32_t most = nic_of(context).most_work_requests();
  if (wanted.cap.max_send_wr > most || wanted.cap.max_recv_wr > most) {
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

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t address, int file, int access) {
  return register_dmabuf(pd, offset, bytes, address, file, static_cast<unsigned>(access));
}

int ibv_dereg_mr(ibv_mr* mr) {
  auto* const soft_mr = reinterpret_cast<SoftMr*>(mr);
  Held(mr->context)->remove(soft_mr);
  if (soft_mr->mapping != nullptr) {
    mk::test::drop_device_writes(soft_mr->mapping, soft_mr->mapping_bytes);
    munmap(soft_mr->mapping, soft_mr->mapping_bytes);
  }
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
