// SPDX-License-Identifier: MIT
// tools/usage.h — wrong usage: one line that names the flag, and exit code 2.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "request.h"

namespace mk::tools {

constexpr int kExitCorrect = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitOutput = 3;  // of a rank to its launcher only: what it prints cannot be written

class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// check_usage(launches >= 1, "--launches is {}; it must be at least 1", launches)
template <class... Args>
void check_usage(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) throw UsageError(fmt::format(message, std::forward<Args>(args)...));
}

// What the library said about an argument, said about the flag or variable it came from.
std::string in_flags(const std::string& message, const RunRequest& request);

}  // namespace mk::tools
