// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_warp.h — instructions at which the lanes of a warp meet and exchange a word.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace mk::soft_gpu {

enum class Exchange : uint8_t { kSync, kElect, kVote, kShuffle, kReduce, kMatch };

// What the lanes of an instruction brought, and who took part.
struct Brought {
  std::array<uint64_t, 32> values{};
  uint32_t lanes = 0;
};

class Warp {
 public:
  // All lanes of the mask come with the same kind of instruction, or the program ends.  Lanes that have ended do not.
  const Brought& meet(uint32_t mask, Exchange kind, uint64_t value);
  void lane_ends(uint32_t lane);

 private:
  // One for each mask.  A lane can be one meeting ahead of another, not two.
  struct Meeting {
    uint32_t mask = 0;
    uint32_t here = 0;
    Exchange kind = Exchange::kSync;
    uint64_t number = 0;
    std::array<Brought, 2> brought;
  };

  Meeting& of(uint32_t mask);
  void end_if_complete(Meeting& meeting);

  std::vector<Meeting> meetings_;
  uint32_t ended_ = 0;
};

}  // namespace mk::soft_gpu
