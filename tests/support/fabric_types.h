// SPDX-License-Identifier: MIT
// tests/support/fabric_types.h — the fabrics that the suite runs against: a new one joins with one line.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "transport/fabric_port.h"

namespace mk::test {

template <size_t n>
struct Text {
  constexpr Text(const char (&from)[n]) { std::copy_n(from, n, chars); }  // NOLINT: meant to be implicit
  char chars[n]{};
};

// The kind of that name as it is.
template <Text name>
struct Kind {
  static constexpr std::string_view kKind = name.chars;
  static std::string label() { return name.chars; }
  static PortSettings settings() { return {}; }
};

// Every send is lent to the kernel, however small.
struct LendingTcp : Kind<"tcp"> {
  static std::string label() { return "tcp_lending"; }
  static PortSettings settings() {
    PortSettings settings;
    settings.tcp.zerocopy = Zerocopy::kAlways;
    settings.tcp.zerocopy_bytes = 0;
    return settings;
  }
};

// Everything is small, so that whatever can be cut in pieces is.
struct NarrowTcp : Kind<"tcp"> {
  static std::string label() { return "tcp_narrow"; }
  static PortSettings settings() {
    PortSettings settings;
    settings.tcp.connections = 1;
    settings.tcp.queue_puts = 2;
    settings.tcp.buffer_bytes = 16 << 10;  // with less the kernel itself crawls
    return settings;
  }
};

// On NICs in software (tests/support/soft_nic), in the order that the seed says; on the machine's own as it is.
template <Text name, uint64_t seed>
struct Soft : Kind<name> {
  static std::string label() { return name.chars + (seed == 0 ? "" : "_seed_" + std::to_string(seed)); }
  static PortSettings settings() {
    setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1);
    return {};
  }
};

// Whatever can be cut in pieces is, and queues are full.
template <Text name, uint64_t seed>
struct NarrowSoft : Soft<name, seed> {
  static std::string label() { return name.chars + std::string("_narrow"); }
  static PortSettings settings() {
    PortSettings settings = Soft<name, seed>::settings();
    settings.rdma.queues = 1;
    settings.rdma.depth = 2;
    settings.rdma.most_bytes = 40'000;
    return settings;
  }
};

// Each put goes over two NICs, however small.
template <Text name, Text device, uint64_t seed>
struct TwoRails : Soft<name, seed> {
  static std::string label() { return name.chars + std::string("_two_rails"); }
  static PortSettings settings() {
    PortSettings settings = Soft<name, seed>::settings();
    settings.rdma.devices = {std::string(device.chars) + "_0", std::string(device.chars) + "_1"};
    settings.rdma.stripe_bytes = 1;
    return settings;
  }
};

// Those whose ranks may be processes, which can go away.
using ApartFabricTypes =
    testing::Types<Kind<"shm">, Kind<"tcp">, LendingTcp, NarrowTcp, Soft<"verbs", 0>, Soft<"verbs", 1>,
                   Soft<"verbs", 2>, NarrowSoft<"verbs", 3>, TwoRails<"verbs", "soft", 4>, Soft<"efa", 0>,
                   Soft<"efa", 1>, Soft<"efa", 2>, NarrowSoft<"efa", 3>, TwoRails<"efa", "soft_efa", 4>>;

template <class Types>
struct WithLoopback;
template <class... Types>
struct WithLoopback<testing::Types<Types...>> {
  using type = testing::Types<Kind<"loopback">, Types...>;
};
using FabricTypes = WithLoopback<ApartFabricTypes>::type;

struct FabricName {
  template <class T>
  static std::string GetName(int) {
    return T::label();
  }
};

}  // namespace mk::test
