// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_runtime.h — what a cudaStream_t stands for.
#pragma once

#include "tests/support/soft_gpu/soft_streams.h"

namespace mk::soft_gpu {

// The default stream for null and cudaStreamLegacy.
Stream& stream_of(void* stream);

}  // namespace mk::soft_gpu
