// SPDX-License-Identifier: MIT
// tests/transport/tcp_handshake_test.cc — bytes recorded at a peer's tcp port admit nobody to another connection.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/fabric_world.h"
#include "tests/support/handshaker.h"
#include "tests/support/recording_relay.h"
#include "tests/support/tcp_stranger.h"
#include "transport/tcp_address.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShort{1000};
constexpr milliseconds kLong{20'000};

class TcpHandshakes : public testing::Test {
 protected:
  std::unique_ptr<FabricPort> open(int rank, milliseconds deadline, int nodes = 2) {
    PortSettings settings;
    settings.world = {nodes, 1};
    settings.rank = rank;
    settings.secret = secret;
    settings.deadline = deadline;
    settings.interface = "lo";
    return open_port("tcp", settings, windows);
  }

  static SocketAddress place_of(const FabricPort& port) { return decode_address(port.address(), 0).places.front(); }
  // The port's address, but leading to the relay.
  static std::string address_by(const RecordingRelay& relay, const FabricPort& port) {
    TcpAddress address = decode_address(port.address(), 0);
    address.places = {relay.place()};
    return encode(address);
  }

  // Ranks 0 and 1 meet, and what was said is recorded.
  std::vector<RecordingRelay::Talk> meet_through_relay() {
    const auto caller = open(0, kLong), peer = open(1, kLong);
    const RecordingRelay relay(place_of(*peer));
    auto other = std::async(std::launch::async, [&] { return peer->connect({caller->address(), peer->address()}); });
    EXPECT_NE(caller->connect({caller->address(), address_by(relay, *peer)}), nullptr);
    EXPECT_NE(other.get(), nullptr);
    return relay.talks();
  }

  const Secret secret = random_secret();
  WindowRegistry windows;
};

TEST_F(TcpHandshakes, TheSecretIsNeverSent) {
  const std::vector<RecordingRelay::Talk> talks = meet_through_relay();
  ASSERT_EQ(talks.size(), 4u);
  for (const RecordingRelay::Talk& talk : talks) {
    ASSERT_GE(talk.from_caller.size(), sizeof(Hello));
    ASSERT_GE(talk.from_listener.size(), sizeof(Challenge) + sizeof(AnswerHead));
    const std::string sent = talk.from_caller + talk.from_listener;
    for (const size_t half : {0, 8}) {
      EXPECT_EQ(sent.find(std::string(reinterpret_cast<const char*>(secret.data()) + half, 8)), std::string::npos);
    }
  }
}

TEST_F(TcpHandshakes, AHelloThatWasRecordedIsTurnedAway) {
  const std::vector<RecordingRelay::Talk> talks = meet_through_relay();
  const auto caller = open(0, kLong), peer = open(1, kLong);
  auto other = std::async(std::launch::async, [&] { return peer->connect({caller->address(), peer->address()}); });
  for (const RecordingRelay::Talk& talk : talks) {
    TcpStranger stranger(peer->address());
    hear_challenge(stranger.socket());
    stranger.say(talk.from_caller.substr(0, sizeof(Hello)));
    EXPECT_TRUE(is_turned_away_silently(stranger.socket()));
  }
  EXPECT_NE(caller->connect({caller->address(), peer->address()}), nullptr);
  EXPECT_NE(other.get(), nullptr);
}

TEST_F(TcpHandshakes, APeerThatAnswersWithoutTheSecretIsNotBelieved) {
  for (const bool reflects : {false, true}) {
    const auto caller = open(0, kShort), peer = open(1, kShort);
    const Fd fake = open_listener();
    TcpAddress address = decode_address(peer->address(), 1);
    address.places = {SocketAddress::v4({htonl(INADDR_LOOPBACK)}, port_of(fake))};
    const std::string fakes = encode(address);
    auto called = std::async(std::launch::async, [&] {
      return throws(ErrorCode::kTimeout, {"rank 0 waited 1000 ms for rank 1", "0 of 4", "or is another rank"}, [&] {
        caller->connect({caller->address(), fakes});
      });
    });
    const int fd = fake.number();
    for (int i = 0; i < 4; ++i) {
      wait_readable({&fd, 1}, handshake_deadline());
      const Fd one = accept_from(fake);
      say(one, bytes_of(fresh_challenge()));
      Hello hello;
      receive_all(one, writable_bytes_of(hello), handshake_deadline(), "a hello");
      AnswerHead head{.proof = hello.proof};
      if (!reflects) fill_random(head.proof);
      say(one, bytes_of(head));
      EXPECT_TRUE(is_turned_away(one)) << "the caller hangs up";
    }
    EXPECT_TRUE(called.get());
  }
}

// Rank 1 calls rank 2 and is called by rank 0.  Who sits in rank 2's place hands rank 1's own challenge to it, and its
// answer back to it.
TEST_F(TcpHandshakes, ARankThatIsMadeToCallItselfTurnsItselfAway) {
  const auto zero = open(0, kShort, 3), one = open(1, kShort, 3), two = open(2, kShort, 3);
  const RecordingRelay relay(place_of(*one));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 1 waited 1000 ms for rank 0", "0 of 4"}, [&] {
    one->connect({zero->address(), one->address(), address_by(relay, *two)});
  }));
  const std::vector<RecordingRelay::Talk> talks = relay.talks();
  ASSERT_GE(talks.size(), 4u);
  EXPECT_EQ(talks.front().from_caller.size(), sizeof(Hello));
  for (const RecordingRelay::Talk& talk : talks) EXPECT_LE(talk.from_listener.size(), sizeof(Challenge));
}

}  // namespace
}  // namespace mk::test
