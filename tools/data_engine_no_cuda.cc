// SPDX-License-Identifier: MIT
// tools/data_engine_no_cuda.cc — compiled in place of attention_backward_math_cuda.cu, attention_check_cuda.cu,
// bounded_math_cuda.cu and data_engine_cuda.cu when there is no CUDA compiler.
#include "attention_backward_math.h"
#include "attention_check.h"
#include "bounded_math.h"
#include "data_engine.h"
#include "mkernel/error.h"

namespace mk::tools {

std::unique_ptr<DataEngine> make_cuda_data_engine(runtime::Device&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

std::unique_ptr<AttentionChecker> make_cuda_attention_checker(runtime::Device&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

std::unique_ptr<AttentionBackwardMath> make_cuda_attention_backward_math(runtime::Device&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

std::unique_ptr<BoundedMath> make_cuda_bounded_math(runtime::Device&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

}  // namespace mk::tools
