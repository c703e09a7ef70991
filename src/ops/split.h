// SPDX-License-Identifier: MIT
// ops/split.h — how many workers play each role: the caller's split, checked, or a default; the seats that are left
// compute.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/roles.h"
#include "core/world_shape.h"
#include "mkernel/options.h"
#include "runtime/device.h"

namespace mk {

// The seats of a rank on a device.
Seats seats_of(const runtime::Device& device);

// What an operator does with a role in a given world.
struct RoleNeed {
  bool has_work = true;
  // On a GPU: with kMaybe, none of the role means one inside each block that computes; with kAlways it has to be so.
  enum class Inside { kNever, kMaybe, kAlways } inside = Inside::kNever;
};

// The caller's split as it is.  Throws Error if the operator cannot work so on a rank's seats.  `names` is the
// operator's table, `needs` has a row for each of its roles.
Roster checked_split(std::string_view op, const WorldShape& world, const Split& asked, std::span<const RoleName> names,
                     std::span<const RoleNeed> needs, const Seats& seats);

// `roles` with workers that compute on all seats that are left.
Roster filled_up(const WorldShape& world, Roster roles, const Seats& seats);

// The split that asks for these workers.
Split split_of(std::span<const RoleName> names, const Roster& roles);

// "intra 1 send 2 compute 3": roles without workers are left out.
std::string in_words(std::span<const RoleName> names, const Roster& roles);

}  // namespace mk
