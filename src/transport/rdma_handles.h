// SPDX-License-Identifier: MIT
// transport/rdma_handles.h — owners of what libibverbs hands out.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace mk {

template <auto release>
struct IbvRelease {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};

using IbvContext = std::unique_ptr<ibv_context, IbvRelease<ibv_close_device>>;
using IbvPd = std::unique_ptr<ibv_pd, IbvRelease<ibv_dealloc_pd>>;
using IbvMr = std::unique_ptr<ibv_mr, IbvRelease<ibv_dereg_mr>>;
using IbvCq = std::unique_ptr<ibv_cq, IbvRelease<ibv_destroy_cq>>;
using IbvQp = std::unique_ptr<ibv_qp, IbvRelease<ibv_destroy_qp>>;
using IbvAh = std::unique_ptr<ibv_ah, IbvRelease<ibv_destroy_ah>>;

}  // namespace mk
