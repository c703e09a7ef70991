// SPDX-License-Identifier: MIT
// transport/secret.cc — see secret.h.
#include "transport/secret.h"

#include <sys/random.h>

#include "mkernel/error.h"

namespace mk {

Secret random_secret() {
  Secret secret;
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    throw Error(ErrorCode::kDevice, "the system gave no random bytes for a secret");
  }
  return secret;
}

bool equal(const Secret& a, const Secret& b) {
  std::byte differ{};
  for (size_t i = 0; i < a.size(); ++i) differ |= a[i] ^ b[i];
  return differ == std::byte{};
}

}  // namespace mk
