// SPDX-License-Identifier: MIT
// transport/bootstrap_message.h — the messages that the processes of a world exchange after they have met.
//
// Plain structs of fixed size, little-endian like every machine this runs on.
#pragma once

#include <bit>
#include <cstdint>

#include "base/bytes.h"

namespace mk {

static_assert(std::endian::native == std::endian::little);

// The last digit is the version.
constexpr uint32_t kMessageMagic = 0x4d4b4234;  // "MKB4"
constexpr uint32_t kMostMessageBytes = 64 << 20;

// Before every message, and before the sentence that ends a meeting.
enum class MessageKind : uint32_t { kData = 1, kRefused = 2 };

struct MessageHead {
  uint32_t magic = kMessageMagic;
  MessageKind kind = MessageKind::kData;
  uint32_t bytes = 0;   // that follow
  uint32_t number = 0;  // of the exchange, so that ranks that are not at the same one notice
};
static_assert(sizeof(MessageHead) == 16);

}  // namespace mk
