// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_memory.h — memory of the software GPU: shared memory of the host, so that other
// processes can map it.
#pragma once

#include <cstddef>
#include <string>

namespace mk::soft_gpu {

// Null: there is none.
void* allocate_memory(size_t bytes);
// False: nothing was allocated there.
bool free_memory(void* memory);

// Where another process finds an allocation, in at most 64 characters; empty if there is none.
std::string place_of(const void* memory);
void* open_place(const std::string& place);
bool close_place(void* memory);

}  // namespace mk::soft_gpu
