// SPDX-License-Identifier: MIT
// tests/support/fabric_types.h — the fabrics that the suite runs against: a new one joins with one line.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
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
  static constexpr std::string_view kName = name.chars;
  static PortSettings settings() { return {}; }
};

// Every send is lent to the kernel, however small.
struct LendingTcp : Kind<"tcp"> {
  static constexpr std::string_view kName = "tcp_lending";
  static PortSettings settings() {
    PortSettings settings;
    settings.tcp.zerocopy = Zerocopy::kAlways;
    settings.tcp.zerocopy_bytes = 0;
    return settings;
  }
};

// Everything is small, so that whatever can be cut in pieces is.
struct NarrowTcp : Kind<"tcp"> {
  static constexpr std::string_view kName = "tcp_narrow";
  static PortSettings settings() {
    PortSettings settings;
    settings.tcp.connections = 1;
    settings.tcp.queue_puts = 2;
    settings.tcp.buffer_bytes = 16 << 10;  // with less the kernel itself crawls
    return settings;
  }
};

// Those whose ranks may be processes, which can go away.
using ApartFabricTypes = testing::Types<Kind<"tcp">, LendingTcp, NarrowTcp, Kind<"verbs">>;

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
    return std::string(T::kName);
  }
};

}  // namespace mk::test
