// SPDX-License-Identifier: MIT
// transport/tcp_parts.h — how many parts of a peer's puts have landed, over all connections to it.
//
// Parts of one put come over several connections, so they land in any order.  Only the last to land may pay the signal.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "transport/tcp_frame.h"

namespace mk {

class TcpParts {
 public:
  // Whether the part may belong to its put, of which others may have landed.
  bool fits(const TcpFrame& part) const {
    const auto put = landing_.find(part.put);
    return part.num_parts > 0 && (put == landing_.end() || put->second.num_parts == part.num_parts);
  }

  // The last byte of a part that fits is in its window.  Whether all other parts of the put were there before.
  bool completes(const TcpFrame& part) {
    if (part.num_parts == 1) return true;
    Landing& put = landing_[part.put];
    put.num_parts = part.num_parts;
    if (++put.num_landed < put.num_parts) return false;
    landing_.erase(part.put);
    return true;
  }

 private:
  struct Landing {
    uint32_t num_parts = 0;
    uint32_t num_landed = 0;
  };
  std::unordered_map<uint32_t, Landing> landing_;  // by the put's number: those with parts here and parts missing
};

}  // namespace mk
