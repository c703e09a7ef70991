// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_context.h — an opened device of the software NIC, and how to find it from the pointers
// that callers have.
//
// Each opening is a machine of its own, with an address of its own.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <mutex>

#include "tests/support/soft_nic/soft_nic.h"

namespace mk::test::soft {

struct SoftContext {
  verbs_context verbs{};  // the functions that verbs.h calls through it; first, so that addresses agree
  SoftNic nic;

  SoftContext(ibv_device* device, const Gid& gid) : nic(settings_from_env(), gid) {
    verbs.sz = sizeof(verbs);
    verbs.context.device = device;
    verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    verbs.context.cmd_fd = verbs.context.async_fd = -1;
    verbs.context.num_comp_vectors = 1;
  }
};

inline SoftNic& nic_of(ibv_context* context) { return reinterpret_cast<SoftContext*>(verbs_get_ctx(context))->nic; }

// The NIC, held.
class Held {
 public:
  explicit Held(ibv_context* context) : nic_(nic_of(context)), lock_(nic_.mutex) {}
  SoftNic* operator->() const { return &nic_; }

 private:
  SoftNic& nic_;
  std::lock_guard<std::mutex> lock_;
};

bool is_efa(const ibv_device* device);

// The functions that verbs.h finds in a context or a queue pair.
void fill_operations(verbs_context& context);
void fill_work_requests(ibv_qp_ex& qp);

// Null and errno if it asks for too much.
ibv_qp* make_qp(ibv_context* context, ibv_pd* pd, const ibv_qp_init_attr_ex& wanted, QpKind kind);

constexpr int kMostCompletions = 1 << 20;

}  // namespace mk::test::soft
