// SPDX-License-Identifier: MIT
// transport/rdma_address.cc — see rdma_address.h.
#include "transport/rdma_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "mkernel/error.h"
#include "transport/rdma_message.h"

namespace mk {
namespace {

// On the wire: Prefix, then the entries.
struct Prefix {
  uint32_t version = kRdmaVersion;
  char kind[8]{};
  uint32_t nodes = 0;
  uint32_t devices = 0;
  uint32_t queues = 0;
};
static_assert(sizeof(Prefix) == 24);

}  // namespace

std::string encode(const RdmaAddress& address) {
  Prefix prefix;
  std::copy_n(address.kind.begin(), std::min(address.kind.size(), sizeof(prefix.kind) - 1), prefix.kind);
  prefix.nodes = static_cast<uint32_t>(address.nodes);
  prefix.devices = static_cast<uint32_t>(address.devices);
  prefix.queues = static_cast<uint32_t>(address.queues);
  std::string bytes(reinterpret_cast<const char*>(&prefix), sizeof(prefix));
  bytes.append(reinterpret_cast<const char*>(address.entries.data()),
               address.entries.size() * sizeof(RdmaQueueAddress));
  return bytes;
}

RdmaAddress decode_address(const std::string& bytes, int rank, const RdmaAddress& own) {
  const auto check = [&](bool holds, const std::string& wrong) {
    if (!holds) throw Error(ErrorCode::kFabric, fmt::format("the {} address of rank {} {}", own.kind, rank, wrong));
  };
  Prefix prefix;
  check(bytes.size() >= sizeof(prefix), fmt::format("has only {} bytes", bytes.size()));
  std::memcpy(&prefix, bytes.data(), sizeof(prefix));
  prefix.kind[sizeof(prefix.kind) - 1] = '\0';
  check(prefix.version == kRdmaVersion, fmt::format("is of version {}, not {}", prefix.version, kRdmaVersion));
  check(prefix.kind == own.kind, fmt::format("is of the fabric '{}'", prefix.kind));
  const auto same = [&](uint32_t theirs, int ours, const char* what) {
    check(theirs == static_cast<uint32_t>(ours),
          fmt::format("has {} {}; {} were expected, as all ranks must agree", theirs, what, ours));
  };
  same(prefix.nodes, own.nodes, "nodes");
  same(prefix.devices, own.devices, "devices");
  same(prefix.queues, own.queues, "queues");
  RdmaAddress address = own;
  const size_t entry_bytes = address.entries.size() * sizeof(RdmaQueueAddress);
  check(bytes.size() == sizeof(prefix) + entry_bytes, fmt::format("has {} bytes", bytes.size()));
  std::memcpy(address.entries.data(), bytes.data() + sizeof(prefix), entry_bytes);
  return address;
}

}  // namespace mk
