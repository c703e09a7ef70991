// SPDX-License-Identifier: MIT
// tools/flags.h — flags whose refusals say what the value was.
//
// CLI11 finds the flags; their values are read here.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <string>

#include "usage.h"

namespace mk::tools {

template <class T>
T number(const std::string& flag, const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  using Limits = std::numeric_limits<T>;
  const bool is_below = text.starts_with('-');
  check_usage(error != std::errc::result_out_of_range, "{} is {}; it must be at {} {}", flag, text,
              is_below ? "least" : "most", is_below ? Limits::min() : Limits::max());
  check_usage(error == std::errc{} && stopped == end, "{} is '{}'; it must be a whole number", flag, text);
  return value;
}

// Not a NaN, and not below 0.
inline float real(const std::string& flag, const std::string& text) {
  float value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  check_usage(error == std::errc{} && stopped == end && value >= 0, "{} is '{}'; it must be a number of at least 0",
              flag, text);
  return value;
}

template <class Enum, size_t kCount>
Enum choice(const std::string& flag, const std::string& text, const Enum (&choices)[kCount]) {
  std::string names;
  for (const Enum one : choices) {
    if (text == name_of(one)) return one;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(one));
  }
  throw UsageError(fmt::format("{} is '{}'; it must be one of {}", flag, text, names));
}

template <class Read>
void add_flag(CLI::App& app, const std::string& flag, const char* type, const std::string& help, const Read& read) {
  app.add_option_function<std::string>(flag, read, help)->type_name(type)->option_text(type);
}

// A number that lands in `field`, a plain or an optional one.
template <class T, class Field>
void add_number(CLI::App& app, const std::string& flag, Field& field, const std::string& help) {
  add_flag(app, flag, "N", help, [flag, &field](const std::string& text) { field = number<T>(flag, text); });
}

}  // namespace mk::tools
