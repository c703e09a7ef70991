// SPDX-License-Identifier: MIT
// transport/staged_address.cc — see staged_address.h.
#include "transport/staged_address.h"

#include <fmt/format.h>

#include <cstring>

#include "mkernel/error.h"

namespace mk {
namespace {

// On the wire: Prefix, the inner address, the key.
struct Prefix {
  uint32_t version = 2;  // also of slots (staged_slot.h)
  int32_t slots = 0;
  uint64_t slot_bytes = 0;
  uint64_t inner_bytes = 0;
  uint64_t key_bytes = 0;
};
static_assert(sizeof(Prefix) == 32);

}  // namespace

std::string encode(const StagedAddress& address) {
  Prefix prefix;
  prefix.slots = address.settings.slots;
  prefix.slot_bytes = address.settings.slot_bytes;
  prefix.inner_bytes = address.inner.size();
  prefix.key_bytes = address.key.size();
  return std::string(reinterpret_cast<const char*>(&prefix), sizeof(prefix)) + address.inner + address.key;
}

StagedAddress decode_address(const std::string& bytes, int rank, const StagedSettings& own) {
  const auto check = [&](bool holds, const std::string& wrong) {
    if (!holds) throw Error(ErrorCode::kFabric, fmt::format("the staged address of rank {} {}", rank, wrong));
  };
  Prefix prefix;
  check(bytes.size() >= sizeof(prefix), fmt::format("has only {} bytes", bytes.size()));
  std::memcpy(&prefix, bytes.data(), sizeof(prefix));
  check(prefix.version == Prefix{}.version, fmt::format("is of version {}, not {}", prefix.version, Prefix{}.version));
  check(prefix.slots == own.slots && prefix.slot_bytes == own.slot_bytes,
        fmt::format("has {} slots of {} bytes; {} of {} were expected, as all ranks must agree", prefix.slots,
                    prefix.slot_bytes, own.slots, own.slot_bytes));
  const uint64_t rest = bytes.size() - sizeof(prefix);
  check(prefix.inner_bytes <= rest && prefix.key_bytes == rest - prefix.inner_bytes,
        fmt::format("has {} bytes, not {} and {} behind its first {}", bytes.size(), prefix.inner_bytes,
                    prefix.key_bytes, sizeof(prefix)));
  return {own, bytes.substr(sizeof(prefix), prefix.inner_bytes), bytes.substr(sizeof(prefix) + prefix.inner_bytes)};
}

}  // namespace mk
