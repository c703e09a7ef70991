// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_layout.cc — see moe_backward_layout.h.
#include "ops/moe/moe_backward_layout.h"

namespace mk::moe {

std::vector<uint64_t> window_bytes(const BackwardLayout& layout) {
  std::vector<uint64_t> bytes = window_bytes(static_cast<const LayerLayout&>(layout));
  bytes.insert(bytes.end(), {(layout.lead_rows + layout.max_rows) * layout.scaled_bytes(),
                             layout.max_rows * layout.parts_bytes(), layout.max_rows * sizeof(float)});
  return bytes;
}

}  // namespace mk::moe
