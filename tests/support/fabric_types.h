// SPDX-License-Identifier: MIT
// tests/support/fabric_types.h — the fabrics that the suite runs against: a new one joins with one line.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fabric_world.h"

namespace mk::test {

struct FabricType {
  std::string label;
  std::string kind;
  std::function<void(PortSettings&)> narrow = nullptr;  // or whatever else makes it a type of its own
  uint64_t seed = 0;  // of NICs in software (tests/support/soft_nic); the machine's own are as they are
  Windows windows = Windows::kInReach;

  FabricWorld world(const WorldShape& shape, uint64_t window_bytes) const {
    setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1);
    PortSettings settings;
    if (narrow) narrow(settings);
    return {kind, shape, window_bytes, settings, windows};
  }
};
inline std::ostream& operator<<(std::ostream& out, const FabricType& type) { return out << type.label; }

// Every send is lent to the kernel, however small.
inline void lend_all(PortSettings& settings) {
  settings.tcp.zerocopy = Zerocopy::kAlways;
  settings.tcp.zerocopy_bytes = 0;
}

// With a quarter of it the kernel of a busy machine sends one segment at a time and waits 40 ms for each to be
// acknowledged: a test took 20 s instead of 0.4.
constexpr int kNarrowBuffer = 64 << 10;

// Everything is small, so that whatever can be cut in pieces is, and queues are full.
inline void narrow_tcp(PortSettings& settings) {
  settings.tcp.connections = 1;
  settings.tcp.queue_puts = 2;
  settings.tcp.buffer_bytes = kNarrowBuffer;
}
// Each put goes over all connections, however small, and these come to differ in how far they are.
inline void cut_tcp(PortSettings& settings) {
  settings.tcp.stripe_bytes = 1;
  settings.tcp.queue_puts = 3;
  settings.tcp.buffer_bytes = kNarrowBuffer;
}
inline void narrow_rdma(PortSettings& settings) {
  settings.rdma.queues = 1;
  settings.rdma.depth = 2;
  settings.rdma.most_bytes = 40'000;
}
inline void narrow_staged(PortSettings& settings) {
  narrow_rdma(settings);
  settings.staged = {.slots = 2, .slot_bytes = 30'000, .queue_puts = 2};
}

// Each put goes over two NICs, however small.
inline std::function<void(PortSettings&)> over_two(const std::string& device) {
  return [device](PortSettings& settings) {
    settings.rdma.devices = {device + "_0", device + "_1"};
    settings.rdma.stripe_bytes = 1;
  };
}

// Those whose ranks may be processes, which can go away.
inline std::vector<FabricType> apart_fabrics() {
  return {{"shm", "shm"},
          {"tcp", "tcp"},
          {"tcp_lending", "tcp", lend_all},
          {"tcp_narrow", "tcp", narrow_tcp},
          {"tcp_in_parts", "tcp", cut_tcp},
          {"verbs", "verbs"},
          {"verbs_seed_1", "verbs", {}, 1},
          {"verbs_seed_2", "verbs", {}, 2},
          {"verbs_narrow", "verbs", narrow_rdma, 3},
          {"verbs_two_rails", "verbs", over_two("soft"), 4},
          {"efa", "efa"},
          {"efa_seed_1", "efa", {}, 1},
          {"efa_seed_2", "efa", {}, 2},
          {"efa_narrow", "efa", narrow_rdma, 3},
          {"efa_two_rails", "efa", over_two("soft_efa"), 4},
          {"staged_shm", "shm", {}, 0, Windows::kFar},
          {"staged_tcp", "tcp", {}, 0, Windows::kFar},
          {"staged_verbs", "verbs", {}, 5, Windows::kFar},
          {"staged_efa", "efa", {}, 6, Windows::kFar},
          {"staged_efa_narrow", "efa", narrow_staged, 7, Windows::kFar},
          {"direct_verbs", "verbs", {}, 8, Windows::kDirect},
          {"direct_verbs_two_rails", "verbs", over_two("soft"), 9, Windows::kDirect},
          {"direct_efa", "efa", {}, 10, Windows::kDirect},
          {"direct_efa_narrow", "efa", narrow_rdma, 11, Windows::kDirect}};
}

inline std::vector<FabricType> all_fabrics() {
  std::vector<FabricType> types = apart_fabrics();
  types.insert(types.begin(), {"loopback", "loopback"});
  return types;
}

// A suite over them; skipped where the machine has no such fabric.
class FabricTest : public testing::TestWithParam<FabricType> {
 protected:
  void SetUp() override {
    const std::string missing = fabric_kind(GetParam().kind).why_not();
    if (!missing.empty()) GTEST_SKIP() << GetParam().kind << ": " << missing;
  }
  static FabricWorld make_world(const WorldShape& shape, uint64_t window_bytes) {
    return GetParam().world(shape, window_bytes);
  }
};
constexpr auto kFabricLabel = [](const testing::TestParamInfo<FabricType>& info) { return info.param.label; };

}  // namespace mk::test
