// SPDX-License-Identifier: MIT
// tests/transport/tcp_port_test.cc — who gets in at a tcp port, who does not, and what is said about it.
#include "transport/tcp_port.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <iterator>
#include <thread>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/fabric_world.h"
#include "tests/support/handshaker.h"
#include "tests/support/tcp_stranger.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShort{400};

Secret secret_of(int number) {
  Secret secret{};
  secret.fill(std::byte(number));
  return secret;
}

PortSettings settings_of(int rank, const WorldShape& world = {2, 1}) {
  PortSettings settings;
  settings.world = world;
  settings.rank = rank;
  settings.secret = secret_of(42);
  return settings;
}

class TcpPorts : public testing::Test {
 protected:
  std::unique_ptr<FabricPort> open(const PortSettings& settings) { return open_port("tcp", settings, windows); }

  WindowRegistry windows;
};

// In a world of 3 × 2, at the port of rank 3, whose rail is 1, 3, 5, with what rank 1 says and one thing wrong with it.
struct WrongGreeting {
  HandshakeContext context{secret_of(42), HandshakeContext::Purpose::kTcpFabric, 3};
  Hello hello{.rank = 1, .size = 6, .number = 0};
};
using Damage = void (*)(WrongGreeting&);
constexpr Damage kDamages[] = {
    [](WrongGreeting& g) { g.context.secret = {}; },
    [](WrongGreeting& g) { g.context.secret[15] ^= std::byte{1}; },
    [](WrongGreeting& g) { g.context.purpose = HandshakeContext::Purpose::kMeeting; },
    [](WrongGreeting& g) { g.context.listener_rank = 1; },
    [](WrongGreeting& g) { g.context.listener_rank = 5; },
    [](WrongGreeting& g) { g.hello.magic ^= 1; },
    [](WrongGreeting& g) { g.hello.rank = 0; },
    [](WrongGreeting& g) { g.hello.rank = 2; },
    [](WrongGreeting& g) { g.hello.rank = 3; },
    [](WrongGreeting& g) { g.hello.rank = 5; },
    [](WrongGreeting& g) { g.hello.rank = 7; },
    [](WrongGreeting& g) { g.hello.rank = 0xffffffff; },
    [](WrongGreeting& g) { g.hello.size = 5; },
    [](WrongGreeting& g) { g.hello.number = 4; },
    [](WrongGreeting& g) { g.hello.number = 0xffffffff; },
};

TEST_F(TcpPorts, StrangersAreSentAwayAndThePeersMeetAllTheSame) {
  const WorldShape shape{3, 2};
  std::vector<std::unique_ptr<FabricPort>> ports;
  for (int rank = 0; rank < shape.size(); ++rank) ports.push_back(open(settings_of(rank, shape)));
  const std::string place = ports[3]->address();
  std::deque<TcpStranger> talkers;  // in the queue before any peer
  for (const std::string& said : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(20'000, 'x'),
                                  std::string(1, 'x'), std::string(sizeof(Hello) - 1, 'x')}) {
    talkers.emplace_back(place).say(said);
  }
  std::deque<TcpStranger> liars;
  for (size_t i = 0; i < std::size(kDamages); ++i) liars.emplace_back(place);
  auto sent_away = std::async(std::launch::async, [&] {
    for (size_t i = 0; i < std::size(kDamages); ++i) {
      WrongGreeting wrong;
      kDamages[i](wrong);
      greet(liars[i].socket(), wrong.context, wrong.hello);
      EXPECT_TRUE(is_turned_away_silently(liars[i].socket())) << "case " << i << " was answered";
    }
  });
  std::vector<std::string> addresses;
  for (const auto& port : ports) addresses.push_back(port->address());
  auto third = std::async(std::launch::async, [&] { return ports[3]->connect(addresses); });
  sent_away.get();  // only then do the peers come
  std::vector<std::future<std::unique_ptr<Fabric>>> others;
  for (const int rank : {0, 1, 2, 4, 5}) {
    others.push_back(std::async(std::launch::async, [&, rank] { return ports[rank]->connect(addresses); }));
  }
  EXPECT_NE(third.get(), nullptr);
  for (auto& other : others) EXPECT_NE(other.get(), nullptr);
  for (size_t i = 0; i < talkers.size(); ++i) {
    EXPECT_LE(talkers[i].hear(1000).size(), sizeof(Challenge)) << "case " << i << " was answered";
  }
}

TEST_F(TcpPorts, OfTwoWorldsWithDifferentSecretsNobodyMeets) {
  std::vector<std::unique_ptr<FabricPort>> ports;
  for (const int rank : {0, 1}) {
    PortSettings settings = settings_of(rank);
    settings.secret = secret_of(rank);
    settings.deadline = kShort;
    ports.push_back(open(settings));
  }
  const Connected connected = connect_all(ports);
  EXPECT_NE(connected.troubles[0].find("rank 0 waited 400 ms for rank 1"), std::string::npos) << connected.troubles[0];
  EXPECT_NE(connected.troubles[0].find("refused"), std::string::npos) << connected.troubles[0];
  EXPECT_NE(connected.troubles[1].find("rank 1 waited 400 ms for rank 0"), std::string::npos) << connected.troubles[1];
  EXPECT_NE(connected.troubles[1].find("0 of 4"), std::string::npos) << connected.troubles[1];
}

TEST_F(TcpPorts, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  for (const int here : {0, 1}) {
    std::vector<std::unique_ptr<FabricPort>> ports;
    for (const int rank : {0, 1}) {
      PortSettings settings = settings_of(rank);
      settings.deadline = kShort;
      ports.push_back(open(settings));
    }
    EXPECT_TRUE(
        throws(ErrorCode::kTimeout, {here == 0 ? "rank 0 waited 400 ms for rank 1" : "rank 1 waited 400 ms"}, [&] {
          ports[here]->connect({ports[0]->address(), ports[1]->address()});
        }));
  }
}

TEST_F(TcpPorts, APlaceWhereNobodyListensIsTriedUntilTheDeadline) {
  PortSettings settings = settings_of(0);
  settings.deadline = kShort;
  const auto port = open(settings);
  const std::string gone = open(settings_of(1))->address();
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 0", "rank 1", "port", "refused"}, [&] {
    port->connect({port->address(), gone});
  }));
}

// The first place of the peer leads to a port that has been closed, the second to the peer.
TEST_F(TcpPorts, APeerIsLookedForAtEachOfItsPlaces) {
  std::vector<std::unique_ptr<FabricPort>> ports;
  ports.push_back(open(settings_of(0)));
  ports.push_back(open(settings_of(1)));
  TcpAddress both = decode_address(open(settings_of(1))->address(), 1);
  const TcpAddress right = decode_address(ports[1]->address(), 1);
  both.places.insert(both.places.end(), right.places.begin(), right.places.end());
  std::unique_ptr<Fabric> other;
  std::thread peer([&] { other = ports[1]->connect({ports[0]->address(), ports[1]->address()}); });
  EXPECT_NE(ports[0]->connect({ports[0]->address(), encode(both)}), nullptr);
  peer.join();
  EXPECT_NE(other, nullptr);
}

TEST_F(TcpPorts, AnAddressThatIsNoneIsRefusedByName) {
  const std::string good = open(settings_of(1))->address();
  std::string version = good, family = good, none = good.substr(0, 8), many = good;
  version[0] = 9;
  family[8] = 5;
  none[6] = 0;
  many[6] = 100;
  for (const std::string& bad : {std::string(), good.substr(0, 7), good.substr(0, good.size() - 1), good + "x", version,
                                 family, none, many, std::string(1000, '\xff')}) {
    const auto port = open(settings_of(0));
    EXPECT_TRUE(throws(ErrorCode::kFabric, {"address of rank 1"}, [&] { port->connect({port->address(), bad}); }));
  }
}

TEST_F(TcpPorts, RanksMustAgreeOnTheNumberOfConnections) {
  PortSettings settings = settings_of(1);
  settings.tcp.connections = 2;
  const auto other = open(settings);
  const auto port = open(settings_of(0));
  EXPECT_TRUE(refuses({"rank 1 wants 2", "rank 0 wants 4"}, [&] {
    port->connect({port->address(), other->address()});
  }));
}

TEST_F(TcpPorts, BadSettingsAreRefusedByName) {
  const auto refused = [&](auto change, std::initializer_list<std::string_view> words) {
    PortSettings settings = settings_of(0);
    change(settings);
    EXPECT_TRUE(refuses(words, [&] { open(settings); }));
  };
  refused([](PortSettings& s) { s.tcp.connections = 0; }, {"connections", "0"});
  refused([](PortSettings& s) { s.tcp.connections = 65; }, {"connections", "65"});
  refused([](PortSettings& s) { s.tcp.queue_puts = 0; }, {"queue_puts"});
  refused([](PortSettings& s) { s.tcp.buffer_bytes = -1; }, {"buffer_bytes", "-1"});
  refused([](PortSettings& s) { s.rank = 2; }, {"rank is 2"});
  refused([](PortSettings& s) { s.world.nodes = 0; }, {"0 x 1"});
  refused([](PortSettings& s) { s.deadline = milliseconds{0}; }, {"deadline"});
  refused([](PortSettings& s) { s.interface = "nosuch0"; }, {"nosuch0", "lo"});
}

TEST_F(TcpPorts, TheMachinesOwnLoopCanBeChosen) {
  PortSettings settings = settings_of(0);
  settings.interface = "lo";
  const TcpAddress address = decode_address(open(settings)->address(), 0);
  ASSERT_FALSE(address.places.empty());
  EXPECT_EQ(to_text(address.places[0]).rfind("127.0.0.1 port ", 0), 0u) << to_text(address.places[0]);
}

// IPv4 and, on a machine that has it, IPv6.
TEST_F(TcpPorts, EveryPlaceOfAnAddressLeadsToThePort) {
  PortSettings settings = settings_of(1);
  settings.interface = "lo";
  const size_t num_places = decode_address(open(settings)->address(), 1).places.size();
  for (size_t i = 0; i < num_places; ++i) {
    const auto caller = open(settings_of(0));
    const auto peer = open(settings);
    TcpAddress one = decode_address(peer->address(), 1);
    one.places = {one.places[i]};
    std::unique_ptr<Fabric> other;
    std::thread thread([&] { other = peer->connect({caller->address(), peer->address()}); });
    EXPECT_NE(caller->connect({caller->address(), encode(one)}), nullptr) << to_text(one.places[0]);
    thread.join();
    EXPECT_NE(other, nullptr);
  }
}

TEST_F(TcpPorts, AWorldOfOneNodeNeedsNobody) {
  const auto port = open(settings_of(0, {1, 2}));
  const auto fabric = port->connect({port->address(), "not looked at"});
  std::vector<uint64_t> completed;
  EXPECT_EQ(fabric->poll(completed), PutResult::kSent);
}

TEST(FabricKinds, AnUnknownOneIsRefusedWithThoseThereAre) {
  WindowRegistry windows;
  EXPECT_TRUE(refuses({"'telepathy'", "loopback, shm, tcp"}, [&] { open_port("telepathy", {}, windows); }));
}

}  // namespace
}  // namespace mk::test
