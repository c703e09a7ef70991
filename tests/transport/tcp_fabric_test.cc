// SPDX-License-Identifier: MIT
// tests/transport/tcp_fabric_test.cc — what a tcp fabric does with peers that misbehave, and under proxies.
#include "transport/tcp_fabric.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "runtime/proxy.h"
#include "tests/support/fabric_world.h"
#include "tests/support/ring_memory.h"
#include "tests/support/tcp_end.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;

class TcpWithABadPeer : public TcpEnd {
 protected:
  static constexpr milliseconds kDeadline{300};

  TcpWithABadPeer() : TcpEnd(with_one_connection()) {}

  static PortSettings with_one_connection() {
    PortSettings settings;
    settings.deadline = kDeadline;
    settings.tcp.connections = 1;
    return settings;
  }
  TcpStranger& stranger = strangers.front();
};

TEST_F(TcpWithABadPeer, AFrameMayComeByteByByte) {
  const std::string sent = text_of(frame(3, 5)) + "hello" + text_of(frame(9, 0)) + text_of(frame(10, 2)) + "ab";
  for (const char byte : sent) {
    ASSERT_TRUE(stranger.say({byte}));
    ASSERT_EQ(poll(), PutResult::kSent) << fabric->failure();
  }
  ASSERT_TRUE(busily([&] { return poll() == PutResult::kSent && signal() == 3; })) << fabric->failure();
  EXPECT_EQ(std::memcmp(data.data() + 3, "hello", 5), 0);
  EXPECT_EQ(std::memcmp(data.data() + 10, "ab", 2), 0);
}

TEST_F(TcpWithABadPeer, HalfAPutAddsToNoSignal) {
  stranger.say(text_of(frame(0, 100)) + std::string(99, 'x'));
  stranger.hang_up();
  EXPECT_TRUE(fails());
  EXPECT_EQ(fabric->failure(), "rank 0 closed its connection to rank 1");
  EXPECT_EQ(signal(), 0u);
}

TEST_F(TcpWithABadPeer, HalfAHeaderIsAClosedConnection) {
  stranger.say(text_of(frame(0, 100)).substr(0, sizeof(TcpFrame) - 1));
  stranger.hang_up();
  EXPECT_TRUE(fails());
  EXPECT_TRUE(is_untouched());
}

class TcpWithABadFrame : public TcpWithABadPeer, public testing::WithParamInterface<int> {};

TEST_P(TcpWithABadFrame, FailsWithAReasonAndWritesNothing) {
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  using Damage = void (*)(TcpFrame&);
  constexpr Damage kDamages[] = {
      [](TcpFrame& f) { f.magic ^= 1; },        [](TcpFrame& f) { f.to_rank = 0; },
      [](TcpFrame& f) { f.bytes = kHuge; },     [](TcpFrame& f) { f.to_offset = kBytes - 7; },
      [](TcpFrame& f) { f.to_window = 2; },     [](TcpFrame& f) { f.to_offset = kHuge - 3; },
      [](TcpFrame& f) { f.signal_index = 4; },  [](TcpFrame& f) { f.signal_index = 0xffffffff; },
      [](TcpFrame& f) { f.signal_window = 2; }, [](TcpFrame& f) { f.bytes = kBytes + 1; },
      [](TcpFrame& f) { f.num_parts = 0; },
  };
  static_assert(std::size(kDamages) == 11);
  TcpFrame bad = frame(0, 8);
  kDamages[GetParam()](bad);
  stranger.say(text_of(bad) + "12345678");
  EXPECT_TRUE(fails());
  EXPECT_EQ(fabric->failure().rfind("rank 0 sent rank 1 ", 0), 0u) << fabric->failure();
  EXPECT_TRUE(is_untouched());
  EXPECT_EQ(stranger.hear(1), "") << "the connection should be closed";
}
INSTANTIATE_TEST_SUITE_P(All, TcpWithABadFrame, testing::Range(0, 11));

TEST_F(TcpWithABadPeer, APeerThatTakesNothingIsNamedAtTheDeadline) {
  ASSERT_EQ(fabric->put(command(kBytes), 0), PutResult::kSent);
  EXPECT_TRUE(fails());
  EXPECT_EQ(fabric->failure(), "rank 0 took nothing from rank 1 for 300 ms");
  EXPECT_TRUE(completed.empty());
}

// A rank that did not look for long finds a connection that the kernel has ended.
TEST_F(TcpWithABadPeer, APeerThatTakesNothingIsNamedAlsoIfTheKernelIsFirst) {
  ASSERT_EQ(fabric->put(command(kBytes), 0), PutResult::kSent);
  ASSERT_EQ(poll(), PutResult::kSent);
  std::this_thread::sleep_for(8 * kDeadline);  // the kernel's own time is what this is about
  EXPECT_TRUE(fails());
  EXPECT_EQ(fabric->failure(), "rank 0 took nothing from rank 1 for 300 ms");
}

TEST(TcpFabric, AFabricThatFailsTakesItsPeersAlong) {
  FabricWorld world("tcp", {2, 1}, 64);
  world.fabric(0).put(world.command(1, 0, 0, 65), 0);
  std::vector<uint64_t> completed;
  EXPECT_TRUE(eventually([&] { return world.fabric(1).poll(completed) == PutResult::kFailed; }));
  EXPECT_EQ(world.fabric(1).failure(), "rank 0 closed its connection to rank 1");
}

TEST(TcpFabric, RanksOffTheRailAreNotConnected) {
  FabricWorld world("tcp", {2, 2}, 64);
  EXPECT_EQ(world.fabric(0).put(world.command(3, 0, 0, 8), 0), PutResult::kFailed);
  EXPECT_NE(world.fabric(0).failure().find("rank 0 has no connection to rank 3"), std::string::npos);
}

TEST(TcpFabric, ANapEndsWhenSomethingArrives) {
  FabricWorld world("tcp", {2, 1}, 64);
  world.poll_all();
  ASSERT_TRUE(world.put(0, world.command(1, 0, 0, 8), 0));
  ASSERT_TRUE(eventually(
      [&] { return world.fabric(0).poll(world.completed(0)) == PutResult::kSent && !world.completed(0).empty(); }));
  const auto begin = std::chrono::steady_clock::now();
  world.fabric(1).nap(std::chrono::minutes{1});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{30});
}

TEST(TcpFabric, AProxyWhosePeerIsGoneRaisesTheStopWord) {
  FabricWorld world("tcp", {2, 1}, 64);
  RingMemory ring(8);
  uint64_t stop = 0;
  runtime::Proxy proxy(ring.view(), world.take_fabric(0), &stop, runtime::ProxySettings{});
  world.take_fabric(1).reset();
  EXPECT_TRUE(eventually([&] { return HostAtomics::load_acquire(&stop) == 1; }));
  EXPECT_EQ(proxy.failure(), "rank 1 closed its connection to rank 0");
}

}  // namespace
}  // namespace mk::test
