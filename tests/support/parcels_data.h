// SPDX-License-Identifier: MIT
// tests/support/parcels_data.h — inputs of the parcels operator, launch by launch, and what must have arrived.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/parcels_protocol.h"

namespace mk::parcels {

inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Data {
 public:
  Data(const WorldShape& world, uint64_t seed) : world_(world), seed_(seed) {}

  // None in a third of the cases, else any number up to kMost.
  uint32_t count(int from, int to, uint64_t epoch) const {
    const uint64_t drawn = mixed(seed_ + 1 + ((epoch * 1000 + from) * 1000 + to) * 977);
    return drawn % 3 == 0 ? 0 : static_cast<uint32_t>(drawn / 3 % (kMost + 1));
  }

  // What lies at a place where a value belongs.
  uint32_t value(uint64_t epoch, const Place& place) const {
    const int other = static_cast<int>(place.offset / kValueStride);
    return place.window == kCountsInWindow ? count(other, place.rank, epoch) : count(place.rank, other, epoch);
  }

  std::vector<std::byte> rows(int from, uint64_t epoch) const {
    std::vector<std::byte> rows(world_.size() * kMost * kBytes);
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint64_t at = (epoch * 1000 + from) * 100'000 + i / kBytes;
      rows[i] = static_cast<std::byte>(mixed(seed_ + at * 31) >> (i % 8 * 8));
    }
    return rows;
  }
  std::vector<std::byte> counts(int from, uint64_t epoch) const {
    std::vector<std::byte> counts(world_.size() * kValueStride);
    for (int to = 0; to < world_.size(); ++to) {
      const uint32_t value = count(from, to, epoch);
      std::memcpy(counts.data() + to * kValueStride, &value, sizeof(value));
    }
    return counts;
  }

  // Whether a rank's received window holds the parcels of a launch, and `poison` where there are none.
  testing::AssertionResult has_arrived(const Layout& layout, int rank, uint64_t epoch, const std::byte* window,
                                       std::byte poison) const {
    const std::byte* const received = window + epoch % kKept * layout.received_bytes();
    for (int from = 0; from < world_.size(); ++from) {
      const std::vector<std::byte> sent = rows(from, epoch);
      const uint32_t due = layout.are_partners(rank, from) ? count(from, rank, epoch) : 0;
      for (uint64_t i = 0; i < kMost * kBytes; ++i) {
        const std::byte right = i < due * kBytes ? sent[rank * kMost * kBytes + i] : poison;
        const std::byte got = received[from * kMost * kBytes + i];
        if (got == right) continue;
        return testing::AssertionFailure()
               << "rank " << rank << ", launch " << epoch << ": byte " << i % kBytes << " of parcel " << i / kBytes
               << " from rank " << from << " is " << static_cast<int>(got) << ", not " << static_cast<int>(right);
      }
    }
    return testing::AssertionSuccess();
  }

 private:
  WorldShape world_;
  uint64_t seed_;
};

// A roster with so many workers of each role.
inline Layout layout_of(const WorldShape& world, int count, int send, int receive) {
  return {world, {{count}, {send}, {receive}}};
}

}  // namespace mk::parcels
