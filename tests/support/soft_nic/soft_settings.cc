// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_settings.cc — see soft_settings.h.
#include "tests/support/soft_nic/soft_settings.h"

#include <cstdlib>
#include <cstring>
#include <string>

namespace mk::test::soft {
namespace {

uint64_t number_after(const std::string& text, const std::string& word) {
  const size_t at = (" " + text).find(" " + word + "=");
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + word.size() + 1, nullptr, 10);
}

}  // namespace

Settings settings_from_env() {
  const char* const found = std::getenv(kVariable);
  const std::string text = found == nullptr ? "" : found;
  return {number_after(text, "seed"),      number_after(text, "down_after"), number_after(text, "lose_receives"),
          number_after(text, "no_dmabuf"), number_after(text, "peermem"),    number_after(text, "no_messages"),
          number_after(text, "queue")};
}

}  // namespace mk::test::soft
