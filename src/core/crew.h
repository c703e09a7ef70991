// SPDX-License-Identifier: MIT
// core/crew.h — the threads that act as one worker.
//
// A protocol function is called by all threads of a crew at once and means one action.  The machine
// lets the leader poll, store and publish, and brings the others along with sync().
#pragma once

#include <concepts>
#include <cstdint>

#include "base/macros.h"

namespace mk {

template <class C>
concept Crew = requires(const C crew) {
  { crew.is_leader() } -> std::convertible_to<bool>;
  crew.sync();
  { crew.leader_says(true) } -> std::convertible_to<bool>;  // to all
  { crew.leaders(uint32_t{}) } -> std::same_as<uint32_t>;   // the leader's value, for all
};

// One thread alone: every worker on a CPU, and a single elected thread on a GPU.
struct SoloCrew {
  MK_HD constexpr bool is_leader() const { return true; }
  MK_HD constexpr void sync() const {}
  MK_HD constexpr bool leader_says(bool mine) const { return mine; }
  MK_HD constexpr uint32_t leaders(uint32_t value) const { return value; }
};

}  // namespace mk
