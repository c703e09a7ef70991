// SPDX-License-Identifier: MIT
// transport/bootstrap_message.h — the bytes that the processes of a world exchange to meet.
//
// Plain structs of fixed size, little-endian like every machine this runs on.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/unique_id.h"

namespace mk {

static_assert(std::endian::native == std::endian::little);

// The last digit is the version.  They differ, so that who echoes a hello has not answered it.
constexpr uint32_t kHelloMagic = 0x4d4b4833;    // "MKH3"
constexpr uint32_t kMessageMagic = 0x4d4b4233;  // "MKB3"
constexpr uint32_t kMostMessageBytes = 64 << 20;
constexpr uint32_t kMostRefusalBytes = 4096;  // of the sentence that answers a hello

// The first thing a rank says.
struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t rank = 0;
  uint32_t size = 0;
  uint32_t caller = 0;  // random: the same in all hellos of one caller, which may reach rank 0 at several addresses
  Secret secret{};
};
static_assert(sizeof(Hello) == 32);

// Before every message, and before the sentence that turns a rank away.  kHeard, without bytes, answers a hello at
// once: who says it is rank 0, though others may still be missing.  What answers a hello repeats its caller.
//
// Once all have met (star.h): kData and kDeclined belong to an exchange, kFailed ends the World, kLeft is a goodbye,
// and kBeat is a sign of life.
enum class MessageKind : uint32_t {
  kData = 1,
  kRefused = 2,
  kHeard = 3,
  kDeclined = 4,
  kFailed = 5,
  kLeft = 6,
  kBeat = 7
};

struct MessageHead {
  uint32_t magic = kMessageMagic;
  MessageKind kind = MessageKind::kData;
  uint32_t bytes = 0;  // that follow
  uint32_t number =
      0;  // of the exchange; the caller answered; or 1 + the rank whose report a failure is, 0 if it is none
};
static_assert(sizeof(MessageHead) == 16);

// Several texts as one, and back: nothing if the text is not `count` parts.
std::string joined(const std::vector<std::string>& parts);
std::optional<std::vector<std::string>> parts_of(const std::string& text, size_t count);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace mk
