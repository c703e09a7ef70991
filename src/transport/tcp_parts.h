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
  // `most`: of one put.
  explicit TcpParts(uint32_t most) : most_(most) {}

  // The header of a part is here.  False if there can be no such part of its put.
  bool begin(const TcpFrame& part) {
    if (part.num_parts == 1) return true;
    if (part.num_parts == 0 || part.num_parts > most_) return false;
    Landing& put = landing_.try_emplace(part.put, Landing{part}).first->second;
    const TcpFrame& first = put.first;
    return ++put.num_begun <= first.num_parts && part.num_parts == first.num_parts && part.amount == first.amount &&
           part.stamp == first.stamp && part.signal_window == first.signal_window &&
           part.signal_index == first.signal_index && part.to_window == first.to_window;
  }

  // The last byte of a part that has begun is in its window.  Whether all other parts of the put were there before.
  bool completes(const TcpFrame& part) {
    if (part.num_parts == 1) return true;
    if (++landing_.at(part.put).num_landed < part.num_parts) return false;
    landing_.erase(part.put);
    return true;
  }

 private:
  struct Landing {
    TcpFrame first;
    uint32_t num_begun = 0;
    uint32_t num_landed = 0;
  };

  uint32_t most_;
  std::unordered_map<uint32_t, Landing> landing_;  // by the put's number: those with parts begun and parts missing
};

}  // namespace mk
