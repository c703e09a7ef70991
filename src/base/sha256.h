// SPDX-License-Identifier: MIT
// base/sha256.h — the hash of FIPS 180-4, so that a secret can be made from another that it does not give away.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mk {

std::array<uint8_t, 32> sha256(std::string_view text);

}  // namespace mk
