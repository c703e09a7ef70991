// SPDX-License-Identifier: MIT
// transport/secret.h — what the ranks of a World know and nobody else: 128 bits.
#pragma once

#include <array>
#include <cstddef>

#include "base/hex.h"

namespace mk {

using Secret = std::array<std::byte, 16>;

Secret random_secret();

// In a time that does not tell how much of it was right.
bool equal(const Secret& a, const Secret& b);

}  // namespace mk
