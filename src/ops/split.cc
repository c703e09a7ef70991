// SPDX-License-Identifier: MIT
// ops/split.cc — see split.h.
#include "ops/split.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "target/sm90/communication_block.h"

namespace mk {
namespace {

std::string list_of(std::span<const RoleName> names) {
  std::string list;
  for (const RoleName& role : names) list += fmt::format("{}{}", list.empty() ? "" : ", ", role.name);
  return list;
}

}  // namespace

Seats seats_of(const runtime::Device& device) {
  const bool is_gpu = device.kind() == DeviceKind::kCuda;
  return {device.seats_per_rank(), is_gpu ? sm90::kWorkersPerSm : 1};
}

Roster checked_split(std::string_view op, const WorldShape& world, const Split& asked, std::span<const RoleName> names,
                     std::span<const RoleNeed> needs, const Seats& seats) {
  for (const auto& [name, count] : asked) {
    check_arg(std::ranges::find(names, name, &RoleName::name) != names.end(),
              "split.{} is {}; {} has no such role: it has {}", name, count, op, list_of(names));
  }
  Roster roles;
  for (size_t role = 0; role < names.size(); ++role) {
    const auto found = asked.find(std::string(names[role].name));
    const int count = found == asked.end() ? 0 : found->second;
    const RoleNeed& need = needs[role];
    const bool may_be_inside =
        need.inside == RoleNeed::Inside::kAlways || (need.inside == RoleNeed::Inside::kMaybe && count == 0);
    const bool is_inside = need.has_work && may_be_inside && seats.sharing > 1;
    const bool is_needed = need.has_work && !is_inside;
    check_arg(is_needed ? count >= 1 : count == 0, "split.{} is {}; {} in a world of {}x{} ranks takes {} of that role",
              names[role].name, count, op, world.nodes, world.ranks, is_needed ? "at least 1" : "0");
    // Each for itself, so that no sum overflows.
    const int most = seats.count * seats.sharing;
    check_arg(count <= most, "split asks for {} workers in one role; a rank of this world has {}", count, most);
    roles.add({count, is_inside ? Seating::kInside : Seating::kShared});
  }
  check_arg(seats.needed_by(roles) <= seats.count,
            "split asks for {} workers on {} {} ({} that communicate share one); a rank of this world has {}",
            roles.num_outside() + roles.num_compute(), seats.needed_by(roles), seats.sharing > 1 ? "SMs" : "threads",
            seats.sharing, seats.count);
  return roles;
}

Roster filled_up(const WorldShape& world, Roster roles, const Seats& seats) {
  roles.set_compute(std::max(1, seats.count - seats.outside(roles)));
  check_arg(seats.needed_by(roles) <= seats.count, "the world has {} ranks, which leaves {} {} a rank; {} are needed",
            world.size(), seats.count, seats.sharing > 1 ? "SMs" : "threads", seats.needed_by(roles));
  return roles;
}

Split split_of(std::span<const RoleName> names, const Roster& roles) {
  Split split;
  for (int role = 0; role < roles.num_roles(); ++role) {
    split[std::string(names[role].name)] = roles.seating(role) == Seating::kInside ? 0 : roles.count(role);
  }
  return split;
}

std::string in_words(std::span<const RoleName> names, const Roster& roles) {
  std::string words;
  for (int role = 0; role < roles.num_roles(); ++role) {
    if (roles.count(role) == 0) continue;
    words += fmt::format("{}{} {}", words.empty() ? "" : " ", names[role].name, roles.count(role));
    if (roles.seating(role) == Seating::kInside) words += " inside";
  }
  return words;
}

}  // namespace mk
