// SPDX-License-Identifier: MIT
// transport/unique_id.h — what every rank must know to meet the others: where rank 0 listens, and a secret.
//
// As text it is "mkernel1;<secret>;<host:port>;<host:port>;…", so a launcher can spread it as it likes: a file, a
// variable, a broadcast.  Whoever has it may join, so it is not for logs.
#pragma once

#include <string>
#include <vector>

#include "transport/secret.h"
#include "transport/socket_address.h"

namespace mk {

struct UniqueId {
  Secret secret{};
  std::vector<Endpoint> endpoints;  // of rank 0, the likeliest first

  std::string to_string() const;
  static UniqueId parse(const std::string& text);  // throws Error(kInvalidArgument), which does not show the secret
};

}  // namespace mk
