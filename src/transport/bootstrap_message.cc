// SPDX-License-Identifier: MIT
// transport/bootstrap_message.cc — see bootstrap_message.h.
#include "transport/bootstrap_message.h"

#include <cstring>

namespace mk {

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    const uint32_t bytes = static_cast<uint32_t>(part.size());
    text.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    text += part;
  }
  return text;
}

std::optional<std::vector<std::string>> parts_of(const std::string& text, size_t count) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (parts.size() < count) {
    uint32_t bytes = 0;
    if (text.size() - at < sizeof(bytes)) return std::nullopt;
    std::memcpy(&bytes, text.data() + at, sizeof(bytes));
    at += sizeof(bytes);
    if (text.size() - at < bytes) return std::nullopt;
    parts.push_back(text.substr(at, bytes));
    at += bytes;
  }
  if (at != text.size()) return std::nullopt;
  return parts;
}

}  // namespace mk
