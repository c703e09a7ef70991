// SPDX-License-Identifier: MIT
// tests/support/soft_gpu/soft_warp.cc — see soft_warp.h.
#include "tests/support/soft_gpu/soft_warp.h"

#include "tests/support/soft_gpu/soft_block.h"

namespace mk::soft_gpu {
namespace {

constexpr size_t kMostMasks = 32;  // of a warp in its life

}  // namespace

Warp::Meeting& Warp::of(uint32_t mask) {
  for (Meeting& meeting : meetings_) {
    if (meeting.mask == mask) return meeting;
  }
  require(meetings_.size() < kMostMasks, "a warp meets with more masks than are supported");
  meetings_.reserve(kMostMasks);  // lanes keep references
  Meeting& meeting = meetings_.emplace_back();
  meeting.mask = mask;
  return meeting;
}

const Brought& Warp::meet(uint32_t mask, Exchange kind, uint64_t value) {
  Block& block = Block::current();
  const uint32_t lane = block.thread().lane();
  require((mask >> lane & 1) != 0, "a lane calls an instruction of its warp with a mask that leaves it out");
  Meeting& meeting = of(mask);
  require(meeting.here == 0 || meeting.kind == kind, "lanes of a warp meet at different instructions");
  const uint64_t number = meeting.number;
  Brought& brought = meeting.brought[number % 2];
  if (meeting.here == 0) brought = {};
  meeting.kind = kind;
  meeting.here |= uint32_t{1} << lane;
  brought.values[lane] = value;
  brought.lanes |= uint32_t{1} << lane;
  end_if_complete(meeting);
  block.wait(&meeting, "other lanes of its warp", [&] { return meeting.number != number; });
  return brought;
}

void Warp::lane_ends(uint32_t lane) {
  ended_ |= uint32_t{1} << lane;
  for (Meeting& meeting : meetings_) {
    if (meeting.here != 0) end_if_complete(meeting);
  }
}

void Warp::end_if_complete(Meeting& meeting) {
  if ((meeting.mask & ~ended_ & ~meeting.here) != 0) return;
  meeting.here = 0;
  ++meeting.number;
  Block::current().notify(&meeting);
}

}  // namespace mk::soft_gpu
