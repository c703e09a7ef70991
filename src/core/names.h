// SPDX-License-Identifier: MIT
// core/names.h — what an operator's roles and signals are called in reports.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/fault.h"
#include "core/roles.h"

namespace mk {

struct Names {
  std::span<const RoleName> roles;  // the operator's table
  std::function<std::string(uint32_t)> signal = {};
  std::function<bool(uint32_t)> is_inner = {};  // a signal that workers of one rank pay each other; none if empty
  std::function<std::string(const FaultRecord&)> refusal = {};  // of an operator that refuses inputs

  std::string_view role(int number) const { return roles[number].name; }
  std::string_view subject(int number) const { return roles[number].subject; }
};

}  // namespace mk
