// SPDX-License-Identifier: MIT
// transport/resolved_put.cc — the sentence about a command that points nowhere.
#include "transport/resolved_put.h"

#include <fmt/format.h>

namespace mk {

std::string describe_bad_put(const Command& c, uint32_t from_rank) {
  return fmt::format(
      "a put of rank {} to rank {} leaves its window: {} bytes from window {} + {} to window {} + {}, signal {}",
      from_rank, c.to_rank, c.bytes, c.from_window, c.from_offset, c.to_window, c.to_offset, c.signal_index);
}

}  // namespace mk
