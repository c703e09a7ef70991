// SPDX-License-Identifier: MIT
// runtime/cuda_ipc.h — GPU memory that processes of one machine map together, through CUDA IPC.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace mk::runtime {

// An allocation of its own starts and ends where CUDA hands memory out.  Smaller ones lie beside others, which whoever
// maps one would map as well.
inline constexpr size_t kIpcGrain = size_t{2} << 20;

// Text without spaces, for `open_ipc` in another process.  `memory` is where an allocation starts.  Throws Error.
std::string ipc_handle(void* memory);

// Mapped on the current device until the last owner lets go; whoever allocated it frees it after that.  Throws Error
// with what may be in the way.
std::shared_ptr<std::byte> open_ipc(const std::string& handle);

}  // namespace mk::runtime
