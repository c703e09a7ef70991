// SPDX-License-Identifier: MIT
// transport/rdma_queue.cc — see rdma_queue.h.
#include "transport/rdma_queue.h"

#include <cerrno>
#include <cstring>

namespace mk {

void RdmaQueue::adopt(ibv_qp* qp, uint32_t secret) {
  if (qp == nullptr) throw_rdma("no queue pair can be had on " + device_.name(), errno);
  qp_.reset(qp);
  std::memcpy(address_.gid, device_.gid().raw, sizeof(address_.gid));
  address_.number = qp->qp_num;
  address_.secret = secret;
  address_.lid = device_.port_attributes().lid;
  address_.mtu = static_cast<uint8_t>(device_.port_attributes().active_mtu);
}

}  // namespace mk
