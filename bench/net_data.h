// SPDX-License-Identifier: MIT
// bench/net_data.h — bytes that a seed and their place decide, to put and to compare.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mk::bench {

void fill(std::byte* to, uint64_t bytes, uint64_t seed);

// Every byte differs from what `fill` writes.
void fill_wrong(std::byte* to, uint64_t bytes, uint64_t seed);

// Bytes that are not as `fill` writes them.
uint64_t num_wrong(const std::byte* in, uint64_t bytes, uint64_t seed);

}  // namespace mk::bench
