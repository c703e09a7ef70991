// SPDX-License-Identifier: MIT
// target/sm90/row_copies.cuh — a warp copies rows from anywhere to consecutive places.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "target/sm90/bulk_copier.cuh"

namespace mk::sm90 {

// All lanes of a warp, each with a copier of the same pieces, through which `copied` went before; source_of(row) is the
// address of a row.  A lane for each piece of the buffer: one thread takes longer to issue copies than they take.  All
// have landed when this returns.
template <class SourceOf>
__device__ void copy_rows_of_lanes(BulkCopier& copier, uint32_t copied, std::byte* to, int rows, uint64_t bytes,
                                   const SourceOf& source_of) {
  const uint32_t piece = copier.piece_bytes(bytes);
  const uint32_t per_row = static_cast<uint32_t>(ceil_div<uint64_t>(bytes, piece));
  const uint32_t total = rows * per_row;
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t begun = 0; begun < total; begun += BulkPieces::kPieces) {
    const uint32_t number = min_of(begun + lane, total - 1);
    const uint32_t row = number / per_row;
    const uint64_t offset = uint64_t{number - row * per_row} * piece;
    const std::byte* const from = source_of(static_cast<int>(row));
    if (lane < BulkPieces::kPieces && begun + lane < total) {
      const uint32_t size = copier.piece_bytes(bytes - offset);
      copier.finish_reads();
      copier.continue_at(copied + number);
      copier.load(from + offset, size);
      copier.store(to + row * bytes + offset, size);
    }
  }
  copier.finish();
  __syncwarp();
  copier.continue_at(copied + total);
}

}  // namespace mk::sm90
