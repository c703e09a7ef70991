// SPDX-License-Identifier: MIT
// tools/flags.cc — see flags.h.
#include "flags.h"

#include <sstream>

namespace mk::tools {

Split read_split(const std::string& flag, const std::string& text) {
  Split split;
  const std::pair<const char*, int*> roles[] = {
      {"compute", &split.compute}, {"intra", &split.intra}, {"send", &split.send}, {"reduce", &split.reduce}};
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    int* count = nullptr;
    for (const auto& [name, field] : roles) {
      if (part.substr(0, equals) == name) count = field;
    }
    check_usage(count != nullptr && equals != part.npos,
                "{} is '{}'; it must be role=N,… with roles compute, intra, send, reduce", flag, text);
    *count = number<int>(flag + " " + part.substr(0, equals), part.substr(equals + 1));
  }
  return split;
}

}  // namespace mk::tools
