// SPDX-License-Identifier: MIT
// tools/input_file.h — reads a file that a flag names, or says why not.
#pragma once

#include <cstdint>
#include <string>

namespace mk::tools {

// A regular file with something in it, so that reading it ends.  Throws UsageError, which names the flag; `allowed` is
// what its value must be ("a file"), `most_bytes` the longest file that is read.
void check_input_file(const char* flag, const std::string& name, int64_t most_bytes, const std::string& allowed);
std::string read_input_file(const char* flag, const std::string& name, int64_t most_bytes, const std::string& allowed);

}  // namespace mk::tools
