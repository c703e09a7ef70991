// SPDX-License-Identifier: MIT
// tools/data_engine_no_cuda.cc — compiled in place of data_engine_cuda.cu and layer_reference_cuda.cu when there is no
// CUDA compiler.
#include "data_engine.h"
#include "layer_reference.h"
#include "mkernel/error.h"

namespace mk::tools {

std::unique_ptr<DataEngine> make_cuda_data_engine(runtime::Device&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

std::unique_ptr<LayerReference> make_cuda_layer_reference(runtime::Device&, const LayerSize&) {
  throw Error(ErrorCode::kUnavailable, runtime::why_no_cuda());
}

}  // namespace mk::tools
