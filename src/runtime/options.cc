// SPDX-License-Identifier: MIT
// runtime/options.cc — the one place that reads mKernel's own environment variables.
#include "mkernel/options.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace mk {
namespace {

template <class T>
void read_number(const char* variable, T& field) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return;
  T value{};
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  check_arg(error == std::errc{} && stopped == end, "{} is '{}'; it must be a whole number", variable, text);
  field = value;
}

}  // namespace

Options Options::from_env(Options base) {
  read_number("MKERNEL_TIMEOUT", base.timeout_ms);
  read_number("MKERNEL_RING_CAPACITY", base.ring_capacity);
  if (const char* nics = std::getenv("MKERNEL_NICS")) base.nics = nics;
  if (const char* net = std::getenv("MKERNEL_NET")) base.net = net;
  return base;
}

Options Options::from_env() { return from_env({}); }

}  // namespace mk
