// SPDX-License-Identifier: MIT
// transport/tcp_frame.h — what goes over a tcp connection.
//
// First a handshake (handshake.h), then frames: a header and as many bytes as it says.  Numbers are little-endian.  A
// frame is a put, or a part of a large put.  The headers of a put's parts differ only in offset and size.
#pragma once

#include <bit>
#include <cstdint>

#include "transport/fabric_port.h"

namespace mk {

static_assert(std::endian::native == std::endian::little, "headers are sent as they lie in memory");

constexpr uint32_t kTcpVersion = 4;  // of everything here; also part of an address

struct TcpFrame {
  static constexpr uint32_t kMagic = 0x706b6d00 | kTcpVersion;  // the version, then "mkp"

  uint32_t magic = kMagic;
  uint32_t to_rank = 0;
  uint64_t to_offset = 0;
  uint64_t bytes = 0;
  uint32_t to_window = 0;
  uint32_t signal_window = 0;
  uint32_t signal_index = 0;
  uint32_t amount = 0;
  uint32_t put = 0;  // its number among those of the sender: which parts belong together
  uint32_t num_parts = 1;
  uint64_t stamp = 0;  // as a Command's
};
static_assert(sizeof(TcpFrame) == 56);

}  // namespace mk
