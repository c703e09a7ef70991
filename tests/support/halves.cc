// SPDX-License-Identifier: MIT
// tests/support/halves.cc — see halves.h.
#include "tests/support/halves.h"

#include <algorithm>

namespace mk::test {

std::vector<Bf16> halves(const std::vector<float>& values) {
  std::vector<Bf16> made(values.size());
  std::ranges::transform(values, made.begin(), [](float value) { return from_float<Bf16>(value); });
  return made;
}

std::vector<float> floats(const std::vector<Bf16>& values) {
  std::vector<float> made(values.size());
  std::ranges::transform(values, made.begin(), [](Bf16 value) { return to_float(value); });
  return made;
}

}  // namespace mk::test
