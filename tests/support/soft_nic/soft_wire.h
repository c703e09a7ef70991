// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_wire.h — carries packets between software NICs of one machine, in any process.
//
// A NIC is a datagram socket whose name is its address (gid).  The kernel keeps what it has not read yet, and says at
// once when a NIC is gone, however its process ended.
#pragma once

#include <optional>
#include <vector>

#include "tests/support/soft_nic/soft_packet.h"

namespace mk::test::soft {

enum class Carried { kYes, kNotNow, kNobodyThere };

class Wire {
 public:
  static constexpr size_t kMostPayload = 48 << 10;

  // Listens at the address.  Without a socket nothing is ever carried.
  explicit Wire(const Gid& own);
  Wire(const Wire&) = delete;
  ~Wire();

  Carried send(const Gid& to, const PacketHead& head, const std::byte* payload, size_t bytes);

  // Nothing if nothing has come.
  std::optional<Packet> receive();

 private:
  int socket_;
  std::vector<std::byte> buffer_;
};

}  // namespace mk::test::soft
