// SPDX-License-Identifier: MIT
// base/bytes.h — objects and text as the bytes they are made of.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mk {

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
inline std::span<const std::byte> text_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace mk
