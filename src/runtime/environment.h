// SPDX-License-Identifier: MIT
// runtime/environment.h — the one way to the environment: by name, so that tests can put another in its place.
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
