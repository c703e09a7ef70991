// SPDX-License-Identifier: MIT
// runtime/options.cc — settings that mKernel's own environment variables change.
#include "mkernel/options.h"

#include <charconv>

#include "base/check.h"
#include "runtime/environment.h"

namespace mk {
namespace {

template <class T>
void read_number(const char* variable, T& field) {
  const std::optional<std::string> text = runtime::environment(variable);
  if (!text) return;
  T value{};
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  check_arg(error == std::errc{} && stopped == end, "{} is '{}'; it must be a whole number", variable, *text);
  field = value;
}

void read_switch(const char* variable, bool& field) {
  const std::optional<std::string> text = runtime::environment(variable);
  if (!text) return;
  check_arg(*text == "0" || *text == "1", "{} is '{}'; it must be 0 or 1", variable, *text);
  field = *text == "1";
}

}  // namespace

Options Options::from_env(Options base) {
  read_number("MKERNEL_TIMEOUT", base.timeout_ms);
  read_number("MKERNEL_RING_CAPACITY", base.ring_capacity);
  base.nics = runtime::environment("MKERNEL_NICS").value_or(base.nics);
  read_number("MKERNEL_QUEUE_DEPTH", base.queue_depth);
  base.net = runtime::environment("MKERNEL_NET").value_or(base.net);
  base.gpu_direct = runtime::environment("MKERNEL_GPU_DIRECT").value_or(base.gpu_direct);
  read_switch("MKERNEL_PIN_PROXIES", base.pin_proxies);
  return base;
}

Options Options::from_env() { return from_env({}); }

}  // namespace mk
