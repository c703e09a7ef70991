// SPDX-License-Identifier: MIT
// bench/net_memory.h — the windows of two ranks that measure a fabric.
//
// Made before the ranks part, in memory that processes of one machine can map.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "transport/shared_memory.h"
#include "transport/window_registry.h"

namespace mk::bench {

constexpr int kNetRanks = 2;

enum class NetSignal : uint32_t { kChecked, kPing, kData, kEnd, kAnswer };
constexpr uint32_t kNetSignals = 5;

class NetMemory {
 public:
  // A rank puts from the first `half_bytes` of its data and is put into at the second.
  explicit NetMemory(uint64_t half_bytes)
      : half_bytes_(half_bytes), data_(make(2 * half_bytes)), signals_(make(kNetSignals * sizeof(uint64_t))) {}

  uint64_t half_bytes() const { return half_bytes_; }
  std::byte* source(int rank) const { return data_[rank].data(); }
  std::byte* target(int rank) const { return data_[rank].data() + half_bytes_; }
  uint64_t* signal(int rank, NetSignal signal) const {
    return reinterpret_cast<uint64_t*>(signals_[rank].data()) + static_cast<uint32_t>(signal);
  }

  struct Windows {
    uint32_t data = 0;
    uint32_t signals = 0;
  };
  // As a rank sees them that has a process of its own, and as one that shares a process does.
  Windows add_own(WindowRegistry& to, int rank) const {
    return add(to, [rank](int r) { return r == rank; });
  }
  Windows add_all(WindowRegistry& to) const {
    return add(to, [](int) { return true; });
  }

 private:
  using Both = std::array<SharedMemory, kNetRanks>;

  static Both make(uint64_t bytes) { return {SharedMemory::make(bytes), SharedMemory::make(bytes)}; }

  template <class IsHere>
  Windows add(WindowRegistry& to, IsHere is_here) const {
    const auto add_one = [&](const Both& both, uint64_t bytes) {
      std::vector<std::byte*> bases;
      std::vector<std::string> handles;
      for (int rank = 0; rank < kNetRanks; ++rank) {
        bases.push_back(is_here(rank) ? both[rank].data() : nullptr);
        handles.push_back(is_here(rank) ? both[rank].handle() : std::string());
      }
      return to.add(std::move(bases), bytes, std::move(handles));
    };
    const uint32_t data = add_one(data_, 2 * half_bytes_);
    return {data, add_one(signals_, kNetSignals * sizeof(uint64_t))};
  }

  uint64_t half_bytes_;
  Both data_;
  Both signals_;
};

}  // namespace mk::bench
