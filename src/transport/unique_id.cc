// SPDX-License-Identifier: MIT
// transport/unique_id.cc — see unique_id.h.
#include "transport/unique_id.h"

#include <fmt/format.h>

#include <sstream>

#include "base/check.h"

namespace mk {
namespace {

constexpr const char* kName = "mkernel1";

Secret parse_secret(const std::string& text) {
  Secret secret;
  check_arg(from_hex(text, secret), "unique id has a secret that is not {} hexadecimal digits", 2 * secret.size());
  return secret;
}

}  // namespace

std::string UniqueId::to_string() const {
  std::string text = fmt::format("{};{}", kName, to_hex(secret));
  for (const Endpoint& endpoint : endpoints) text += ';' + endpoint.to_string();
  return text;
}

UniqueId UniqueId::parse(const std::string& text) {
  std::istringstream fields(text);
  std::string field;
  std::getline(fields, field, ';');
  check_arg(field == kName, "unique id does not begin with '{};'; it must be what rank 0 made", kName);
  std::getline(fields, field, ';');
  UniqueId id{parse_secret(field), {}};
  while (std::getline(fields, field, ';')) id.endpoints.push_back(Endpoint::parse(field));
  check_arg(!id.endpoints.empty(), "unique id names no address");
  return id;
}

}  // namespace mk
