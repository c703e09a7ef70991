// SPDX-License-Identifier: MIT
// tests/support/ring_traffic.h — workers of two ranks push into rings, and proxies carry it over a fabric.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "core/stamp.h"
#include "runtime/proxy.h"
#include "tests/support/fabric_world.h"
#include "tests/support/ring_memory.h"

namespace mk::test {

constexpr uint64_t kRingPuts = 100, kRingPutBytes = 2500;
constexpr uint64_t kRingTrafficBytes = 2 * kRingPuts * kRingPutBytes;

enum class RingPayments { kAmounts, kStamps };

// In a world of two ranks with windows of kRingTrafficBytes, whose fabrics it takes.
inline void carry_ring_traffic(FabricWorld& world, RingPayments payments) {
  const auto stamp = [&](uint64_t i) {
    return payments == RingPayments::kStamps ? stamp_of(1000 + i, static_cast<uint32_t>(i)) : 0;
  };
  for (const int rank : {0, 1}) fill(world.data(rank), kRingPuts * kRingPutBytes, rank);
  RingMemory rings[2] = {RingMemory(8), RingMemory(8)};
  uint64_t stop[2] = {0, 0};
  std::vector<std::unique_ptr<runtime::Proxy>> proxies;
  for (const int rank : {0, 1}) {
    proxies.push_back(std::make_unique<runtime::Proxy>(rings[rank].view(), world.take_fabric(rank), &stop[rank],
                                                       runtime::ProxySettings{}));
  }
  const auto work = [&](int rank) {
    const Producer producer{rings[rank].view()};
    for (uint64_t i = 0; i < kRingPuts; ++i) {
      const uint64_t position = producer.claim();
      ASSERT_TRUE(eventually([&] { return producer.is_free(position); })) << proxies[rank]->failure();
      Command command = world.command(1 - rank, i * kRingPutBytes, (kRingPuts + i) * kRingPutBytes, kRingPutBytes,
                                      static_cast<uint32_t>(i));
      command.stamp = stamp(i);
      producer.publish(position, command);
    }
    std::vector<std::byte> expected(kRingPuts * kRingPutBytes);
    fill(expected.data(), expected.size(), 1 - rank);
    for (uint64_t i = 0; i < kRingPuts; ++i) {
      const uint64_t wanted = after_payment(0, {1, stamp(i)});
      ASSERT_TRUE(eventually([&] { return world.seen(rank, static_cast<uint32_t>(i)) == wanted; })) << i;
      EXPECT_EQ(std::memcmp(world.data(rank) + (kRingPuts + i) * kRingPutBytes, expected.data() + i * kRingPutBytes,
                            kRingPutBytes),
                0)
          << i;
    }
    EXPECT_TRUE(eventually([&] { return rings[rank].completed() == kRingPuts; }));
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  for (const int rank : {0, 1}) EXPECT_EQ(proxies[rank]->failure(), "");
}

}  // namespace mk::test
