// SPDX-License-Identifier: MIT
// tests/transport/proxied_fabric_test.cc — every fabric carries what proxies take from their rings.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/proxy.h"
#include "tests/support/fabric_types.h"
#include "tests/support/fabric_world.h"
#include "tests/support/ring_memory.h"

namespace mk::test {
namespace {

constexpr uint64_t kPuts = 100, kBytes = 2500;

// Workers on both ranks push into rings; proxies carry the commands; each worker waits for the other's signals.
void carries_what_proxies_take(FabricWorld world) {
  for (const int rank : {0, 1}) fill(world.data(rank), kPuts * kBytes, rank);
  RingMemory rings[2] = {RingMemory(8), RingMemory(8)};
  uint64_t stop[2] = {0, 0};
  std::vector<std::unique_ptr<runtime::Proxy>> proxies;
  for (const int rank : {0, 1}) {
    proxies.push_back(std::make_unique<runtime::Proxy>(rings[rank].view(), world.take_fabric(rank), &stop[rank],
                                                       runtime::ProxySettings{}));
  }
  const auto work = [&](int rank) {
    const Producer producer{rings[rank].view()};
    for (uint64_t i = 0; i < kPuts; ++i) {
      const uint64_t position = producer.claim();
      ASSERT_TRUE(eventually([&] { return producer.is_free(position); })) << proxies[rank]->failure();
      producer.publish(position,
                       world.command(1 - rank, i * kBytes, (kPuts + i) * kBytes, kBytes, static_cast<uint32_t>(i)));
    }
    std::vector<std::byte> expected(kPuts * kBytes);
    fill(expected.data(), expected.size(), 1 - rank);
    for (uint64_t i = 0; i < kPuts; ++i) {
      ASSERT_TRUE(eventually([&] { return world.seen(rank, static_cast<uint32_t>(i)) == 1; })) << i;
      EXPECT_EQ(std::memcmp(world.data(rank) + (kPuts + i) * kBytes, expected.data() + i * kBytes, kBytes), 0) << i;
    }
    EXPECT_TRUE(eventually([&] { return rings[rank].completed() == kPuts; }));
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  for (const int rank : {0, 1}) EXPECT_EQ(proxies[rank]->failure(), "");
}

template <class T>
class ProxiedFabric : public testing::Test {};
TYPED_TEST_SUITE(ProxiedFabric, FabricTypes, FabricName);

TYPED_TEST(ProxiedFabric, CarriesWhatProxiesTakeFromTheirRings) {
  const std::string missing = fabric_kind(TypeParam::kKind).why_not();
  if (!missing.empty()) GTEST_SKIP() << TypeParam::kKind << ": " << missing;
  carries_what_proxies_take(FabricWorld(TypeParam::kKind, {2, 1}, 2 * kPuts * kBytes, TypeParam::settings()));
}

}  // namespace
}  // namespace mk::test
