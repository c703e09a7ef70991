// SPDX-License-Identifier: MIT
// transport/secret.cc — see secret.h.
#include "transport/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "mkernel/error.h"

namespace mk {
namespace {

// Its length, then the part itself.
void append(std::vector<std::byte>& message, std::span<const std::byte> part) {
  const uint64_t bytes = part.size();
  const std::span<const std::byte> length = bytes_of(bytes);
  message.insert(message.end(), length.begin(), length.end());
  message.insert(message.end(), part.begin(), part.end());
}

const unsigned char* chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

void fill_random(std::span<std::byte> bytes) {
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorCode::kDevice, "the system gave no random bytes for a secret");
  }
}

Secret random_secret() {
  Secret secret;
  fill_random(secret);
  return secret;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  Digest digest;
  unsigned int bytes = 0;
  const unsigned char* const made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), chars(message),
                                         message.size(), reinterpret_cast<unsigned char*>(digest.data()), &bytes);
  if (made == nullptr || bytes != digest.size()) {
    throw Error(ErrorCode::kDevice,
                "OpenSSL's libcrypto computed no HMAC-SHA-256: out of memory, or its configuration forbids it");
  }
  return digest;
}

Digest hmac_of_parts(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> message;
  for (const std::span<const std::byte> part : parts) append(message, part);
  return hmac_sha256(key, message);
}

Secret derive_secret(std::string_view from, std::initializer_list<std::string_view> purpose) {
  std::vector<std::byte> message;
  for (const std::string_view part : purpose) append(message, text_bytes(part));
  const Digest digest = hmac_sha256(text_bytes(from), message);
  Secret secret;
  std::copy_n(digest.begin(), secret.size(), secret.begin());
  return secret;
}

}  // namespace mk
