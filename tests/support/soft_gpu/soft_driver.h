// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_driver.h — the functions of CUDA's driver that this project asks for by name.
#pragma once

namespace mk::soft_gpu {

// Null: there is none of this name.
void* driver_function(const char* name);

// The thread uses CUDA: from now on it has a context.
void use_context();

}  // namespace mk::soft_gpu
