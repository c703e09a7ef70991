// SPDX-License-Identifier: MIT
// base/cuda_copy.h — copies inside device memory, by the copy engines or by whatever the driver chooses.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mk {

struct CopyPiece {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
};

enum class CopyPath {
  kAny,     // the driver chooses; it may take a kernel, which needs an SM
  kEngine,  // the driver is asked for the copy engines (a hint); as kAny with a driver older than 12.8
};

constexpr const char* name_of(CopyPath path) { return path == CopyPath::kEngine ? "engine" : "any"; }

// Queues the pieces, in no order among them; none may overlap another.  `stream` is no default stream.
void copy_on_device(CopyPath path, std::span<const CopyPiece> pieces, cudaStream_t stream);

}  // namespace mk
