// SPDX-License-Identifier: MIT
// bench/row_kernels.h — what a host-driven mixture of experts needs besides products: rows that are moved, SwiGLU, and
// weighted sums of rows.
//
// bf16; rows are whole vectors of 16 bytes, and so aligned.  Tables lie in memory of the GPU.
#pragma once

#include <cstdint>
#include <span>

#include "bench/moe_tables.h"
#include "mkernel/types.h"

namespace mk::bench {

void queue_moves(std::span<const RowMove> moves, int64_t row_bytes, Stream stream);

// activations [rows, inter] = silu(gate) · up, where a row of `gates` is its gate and then its up; fp32 inside.
void queue_swiglu(const void* gates, void* activations, int64_t rows, int64_t inter, Stream stream);

// In fp32 and in the order of the terms, rounded once.
void queue_weighted_sums(std::span<const RowSum> sums, const RowTerm* terms, int64_t row_bytes, Stream stream);

}  // namespace mk::bench
