// SPDX-License-Identifier: MIT
// runtime/environment.cc — the one place that reads the environment.
#include "runtime/environment.h"

#include <cstdlib>

namespace mk::runtime {

std::optional<std::string> environment(const std::string& name) {
  const char* const text = std::getenv(name.c_str());
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

}  // namespace mk::runtime
