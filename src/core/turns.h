// SPDX-License-Identifier: MIT
// core/turns.h — which item of a walk a worker takes next.
//
// Workers take items in turn.  If their machine can claim, whoever is free takes the next one that nobody has: a worker
// may be slower than others.  Either way items are begun in their order.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "core/machine.h"
#include "core/roles.h"

namespace mk {

MK_PROTOCOL
template <Machine M>
MK_HD int64_t first_turn(M& m, const Post& post) {
  if constexpr (requires { m.claim(); }) {
    return m.claim();
  } else {
    return post.index;
  }
}

// After `turn`.
MK_PROTOCOL
template <Machine M>
MK_HD int64_t next_turn(M& m, const Post& post, int64_t turn) {
  if constexpr (requires { m.claim(); }) {
    return m.claim();
  } else {
    return turn + post.count;
  }
}

}  // namespace mk
