// SPDX-License-Identifier: MIT
// core/names.h — what an operator's roles and signals are called in reports.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/roles.h"

namespace mk {

struct Names {
  std::span<const RoleName> roles;  // the operator's table
  std::function<std::string(uint32_t)> signal;

  std::string_view role(int number) const { return roles[number].name; }
  std::string_view subject(int number) const { return roles[number].subject; }
};

}  // namespace mk
