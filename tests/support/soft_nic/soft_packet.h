// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_packet.h — what software NICs send each other.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mk::test::soft {

using Gid = std::array<uint8_t, 16>;

enum class PacketKind : uint32_t {
  kData,
  kAnswer,  // to a whole message: how it ended
  kProbe,   // only shows whether the receiver is there
};

struct PacketHead {
  PacketKind kind = PacketKind::kData;
  Gid from{};
  uint32_t from_qp = 0;
  uint32_t to_qp = 0;
  uint32_t queue_key = 0;
  uint64_t message = 0;  // counted by the sending queue pair
  uint32_t opcode = 0;   // ibv_wr_opcode
  uint32_t immediate = 0;
  uint64_t address = 0;  // a write's
  uint32_t key = 0;
  uint32_t no_room_tries = 0;  // 7: for ever
  uint64_t message_bytes = 0;
  uint64_t offset = 0;
  uint32_t status = 0;  // an answer's ibv_wc_status
};

struct Packet {
  PacketHead head;
  std::vector<std::byte> payload;
};

// Who sent which message.
struct MessageName {
  Gid from{};
  uint32_t from_qp = 0;
  uint64_t message = 0;

  friend auto operator<=>(const MessageName&, const MessageName&) = default;
};
inline MessageName name_of(const PacketHead& head) { return {head.from, head.from_qp, head.message}; }

}  // namespace mk::test::soft
