// SPDX-License-Identifier: MIT
// runtime/members.h — which ranks of a world live in this process: a contiguous range, often all or one.
#pragma once

namespace mk::runtime {

struct Members {
  int first = 0;
  int count = 0;

  bool has(int rank) const { return rank >= first && rank < first + count; }
  int end() const { return first + count; }
};

}  // namespace mk::runtime
