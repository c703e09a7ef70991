// SPDX-License-Identifier: MIT
// transport/secret.h — what the ranks of a World know and nobody else: 128 bits, and what is computed with them.
//
// secret.cc is the only source that uses OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/hex.h"

namespace mk {

using Secret = std::array<std::byte, 16>;
using Digest = std::array<std::byte, 32>;

// From the kernel's generator for cryptography.  Throws Error(kDevice) if it gives none.
void fill_random(std::span<std::byte> bytes);
Secret random_secret();

// In a time that does not tell how much of it was right.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

// HMAC-SHA-256 of RFC 2104.
Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

// HMAC-SHA-256 of several parts, each behind its length, so that no two lists of parts give the same message.
Digest hmac_of_parts(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts);

// A secret for one purpose, made from another secret that cannot be computed back from it.  The first part of the
// purpose is a label that nothing else uses.
Secret derive_secret(std::string_view from, std::initializer_list<std::string_view> purpose);

}  // namespace mk
