// SPDX-License-Identifier: MIT
// tools/input_file.cc — see input_file.h.
#include "input_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "usage.h"

namespace mk::tools {

namespace fs = std::filesystem;

void check_input_file(const char* flag, const std::string& name, int64_t most_bytes, const std::string& allowed) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  check_usage(fs::exists(status), "{} is '{}'; it must be {}", flag, name, allowed);
  check_usage(fs::is_regular_file(status), "{} is '{}', which is {}; it must be {}", flag, name,
              fs::is_directory(status) ? "a folder" : "no regular file", allowed);
  const uintmax_t bytes = fs::file_size(name, error);
  check_usage(!error && bytes <= static_cast<uintmax_t>(most_bytes),
              "{} is '{}', which has {} bytes; at most {} are read", flag, name, bytes, most_bytes);
  check_usage(std::ifstream(name).good(), "{} is '{}', which cannot be read", flag, name);
}

std::string read_input_file(const char* flag, const std::string& name, int64_t most_bytes, const std::string& allowed) {
  check_input_file(flag, name, most_bytes, allowed);
  std::ifstream in(name, std::ios::binary);
  std::string text(static_cast<size_t>(most_bytes), '\0');
  in.read(text.data(), most_bytes);
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

}  // namespace mk::tools
