// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_efadv.cc — what libefa exports: SRD queue pairs.
#include <infiniband/efadv.h>

#include <cerrno>
#include <cstring>

#include "tests/support/soft_nic/soft_context.h"

using namespace mk::test::soft;

extern "C" {

int efadv_query_device(ibv_context* context, efadv_device_attr* attributes, uint32_t bytes) {
  if (!is_efa(context->device)) return EOPNOTSUPP;
  efadv_device_attr found{};
  found.max_sq_wr = found.max_rq_wr = nic_of(context).most_work_requests();
  found.max_sq_sge = found.max_rq_sge = 1;
  found.inline_buf_size = 32;
  found.device_caps = ~0u;  // all that any header names
  found.max_rdma_size = nic_of(context).most_message_bytes();
  std::memcpy(attributes, &found, std::min<size_t>(bytes, sizeof(found)));
  return 0;
}

ibv_qp* efadv_create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted, efadv_qp_init_attr* efa, uint32_t) {
  constexpr uint64_t kOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  const bool is_known = (wanted->send_ops_flags & ~kOperations) == 0;  // no atomics
  if (!is_efa(context->device) || efa->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD || !is_known) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return make_qp(context, wanted->pd, *wanted, QpKind::kSrd);
}

}  // extern "C"
