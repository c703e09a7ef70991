// SPDX-License-Identifier: MIT
// runtime/environment.h — how settings are looked up in the environment: by name, so that tests can replace it.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace mk::runtime {

// The value of a variable; nothing if it is not set or empty.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// This process's own.
std::optional<std::string> environment(const std::string& name);

}  // namespace mk::runtime
