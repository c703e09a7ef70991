// SPDX-License-Identifier: MIT
// tests/support/halves.h — bf16 from fp32 and back, millions of them: test sources are not optimised, this is.
#pragma once

#include <vector>

#include "base/half.h"

namespace mk::test {

std::vector<Bf16> halves(const std::vector<float>& values);
std::vector<float> floats(const std::vector<Bf16>& values);

}  // namespace mk::test
