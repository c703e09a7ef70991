// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_absent.cc — compiled in place of the kernels when there is no CUDA compiler.
#include "mkernel/error.h"
#include "ops/attention/ring_attention_backward_sm90.h"
#include "ops/attention/ring_attention_sm90.h"
#include "runtime/device.h"

namespace mk::attention {

void launch_gpu(const Layout&, const RankView&, const runtime::Plan&, const Operands&, DType, Stream) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

void launch_backward_gpu(const BackwardLayout&, const RankView&, const runtime::Plan&, const BackwardOperands&, DType,
                         Stream) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

}  // namespace mk::attention
