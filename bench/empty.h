// SPDX-License-Identifier: MIT
// bench/empty.h — a kernel that does nothing, to see what launching costs.
#pragma once

#include "mkernel/types.h"

namespace mk::bench {

// Blocks of as many threads as the operators' kernels have.
void queue_empty_kernel(int num_blocks, Stream stream);

}  // namespace mk::bench
