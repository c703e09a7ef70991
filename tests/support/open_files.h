// SPDX-License-Identifier: MIT
// tests/support/open_files.h — how many descriptors this process has open.
#pragma once

#include <filesystem>
#include <iterator>

namespace mk::test {

// Without the one that looks.
inline int num_open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<int>(std::distance(begin(files), end(files))) - 1;
}

}  // namespace mk::test
