// SPDX-License-Identifier: MIT
// transport/bootstrap_message.h — the bytes that the processes of a world exchange to meet.
//
// Plain structs of fixed size, little-endian like every machine this runs on.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

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
enum class MessageKind : uint32_t { kData = 1, kRefused = 2, kHeard = 3 };

struct MessageHead {
  uint32_t magic = kMessageMagic;
  MessageKind kind = MessageKind::kData;
  uint32_t bytes = 0;   // that follow
  uint32_t number = 0;  // of the exchange, so that ranks that are not at the same one notice; or the caller answered
};
static_assert(sizeof(MessageHead) == 16);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace mk
