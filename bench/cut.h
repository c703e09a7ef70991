// SPDX-License-Identifier: MIT
// bench/cut.h — a shard's rows in chunks of equal height, the last one shorter.
#pragma once

#include "core/tile.h"

namespace mk::bench {

class Cut {
 public:
  // Into `wanted` chunks, or fewer where there are not enough rows.
  constexpr Cut(int64_t rows, int wanted)
      : rows_(rows), height_(ceil_div<int64_t>(rows, wanted)), count_(static_cast<int>(ceil_div(rows, height_))) {}

  constexpr int count() const { return count_; }
  constexpr Range rows(int chunk) const { return block_range(rows_, height_, chunk); }

 private:
  int64_t rows_;
  int64_t height_;
  int count_;
};

}  // namespace mk::bench
