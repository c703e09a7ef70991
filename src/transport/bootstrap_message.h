// SPDX-License-Identifier: MIT
// transport/bootstrap_message.h — the messages that the processes of a world exchange after they have met.
//
// Plain structs of fixed size, little-endian like every machine this runs on.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace mk {

static_assert(std::endian::native == std::endian::little);

// The last digit is the version.
constexpr uint32_t kMessageMagic = 0x4d4b4234;  // "MKB4"
constexpr uint32_t kMostMessageBytes = 64 << 20;

// Before every message, and before the sentence that ends a meeting.
//
// While ranks meet: kMissing says again and again who has not joined yet, kData that all have, kRefused why they
// cannot. Once all have met (star.h): kData and kDeclined belong to an exchange, kFailed ends the World, kLeft is a
// goodbye, kBeat is a sign of life,
// and kNote is said again if the World fails.
enum class MessageKind : uint32_t {
  kData = 1,
  kRefused = 2,
  kMissing = 3,
  kDeclined = 4,
  kFailed = 5,
  kLeft = 6,
  kBeat = 7,
  kNote = 8,
};

struct MessageHead {
  uint32_t magic = kMessageMagic;
  MessageKind kind = MessageKind::kData;
  uint32_t bytes = 0;   // that follow
  uint32_t number = 0;  // of the exchange; or 1 + the rank whose report a failure is, 0 if it is none
};
static_assert(sizeof(MessageHead) == 16);

// Several texts as one, and back: nothing if the text is not `count` parts.
std::string joined(const std::vector<std::string>& parts);
std::optional<std::vector<std::string>> parts_of(const std::string& text, size_t count);

}  // namespace mk
