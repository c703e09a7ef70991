// SPDX-License-Identifier: MIT
// base/hex.h — bytes as text: two hexadecimal digits each.
#pragma once

#include <charconv>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace mk {

inline std::string to_hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte one : bytes) {
    text += kDigits[static_cast<unsigned>(one) / 16];
    text += kDigits[static_cast<unsigned>(one) % 16];
  }
  return text;
}

// False if `text` is not as many bytes, or none at all.
inline bool from_hex(std::string_view text, std::span<std::byte> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    const char* const first = text.data() + 2 * i;
    const auto [rest, error] = std::from_chars(first, first + 2, value, 16);
    if (error != std::errc() || rest != first + 2) return false;
    bytes[i] = static_cast<std::byte>(value);
  }
  return true;
}

}  // namespace mk
