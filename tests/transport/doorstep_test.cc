// SPDX-License-Identifier: MIT
// tests/transport/doorstep_test.cc — strangers at a listener cost little, however many they are, and peers get through.
#include "transport/doorstep.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/few_descriptors.h"
#include "tests/support/handshaker.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};

// Not a fixture: sanitizers look at objects with virtual functions, and need a descriptor for that.
struct House {
  explicit House(milliseconds least_stay = Doorstep::kLeastStay) : doorstep(listener, context, kAmple, least_stay) {}

  Fd stranger() const {
    const SocketAddress place = SocketAddress::v4({htonl(INADDR_LOOPBACK)}, port_of(listener));
    return connect_to({&place, 1}, Clock::now() + kAmple);
  }
  void turn() {
    doorstep.turn([&](ProvenCaller caller) {
      admitted.push_back(caller.hello().rank);
      sockets.push_back(caller.accept());
    });
  }
  // Turns until somebody has been let in, who answers.
  Hello greeting_of(const Fd& caller, uint32_t rank) {
    EXPECT_TRUE(eventually([&] {
      turn();
      return has_challenge(caller);
    }));
    return prove(context, hear_challenge(caller), {.rank = rank});
  }
  static bool has_challenge(const Fd& caller) {
    Challenge challenge;
    return recv(caller.number(), &challenge, sizeof(challenge), MSG_PEEK) == sizeof(challenge);
  }
  bool has_been_sent_away(const Fd& caller) const {
    std::byte bytes[sizeof(Challenge)];
    return receive_some(caller, bytes) < 0 || receive_some(caller, bytes) < 0;
  }

  Fd listener = open_listener();
  HandshakeContext context{random_secret(), HandshakeContext::Purpose::kTcpFabric, 3};
  Doorstep doorstep;
  std::vector<uint32_t> admitted;
  std::vector<Fd> sockets;
};

TEST(Doorstep, ATurnLetsInAFewAndThereIsRoomForSome) {
  House house(milliseconds(0));
  std::vector<Fd> strangers;
  for (size_t i = 0; i < Doorstep::kMostGuests + 100; ++i) strangers.push_back(house.stranger());
  house.turn();
  EXPECT_EQ(house.doorstep.num_guests(), static_cast<size_t>(Doorstep::kMostAtOnce));
  for (size_t i = 0; i < strangers.size(); ++i) {
    house.turn();
    ASSERT_LE(house.doorstep.num_guests(), Doorstep::kMostGuests);
  }
  EXPECT_EQ(house.doorstep.num_guests(), Doorstep::kMostGuests);
  EXPECT_TRUE(house.has_been_sent_away(strangers.front())) << "the oldest has to go";
  EXPECT_FALSE(house.has_been_sent_away(strangers.back())) << "the newest stays";
}

// They come all at once and are slow to answer: who finds no room waits in the listener's queue.
TEST(Doorstep, NobodyWhoAnswersInTimeHasToMakeRoomHoweverManyTheyAre) {
  House house(kAmple);
  constexpr size_t kCallers = 2 * Doorstep::kMostGuests;
  std::vector<Fd> callers;
  for (size_t i = 0; i < kCallers; ++i) callers.push_back(house.stranger());
  while (house.admitted.size() < kCallers) {
    for (size_t i = 0; i < kCallers; ++i) house.turn();
    ASSERT_EQ(house.doorstep.num_guests(), Doorstep::kMostGuests);
    std::vector<pollfd> watched;
    house.doorstep.watch(watched);
    EXPECT_EQ(watched.size(), Doorstep::kMostGuests) << "to poll the listener would be to spin";
    const size_t before = house.admitted.size();
    for (size_t i = before; i < before + Doorstep::kMostGuests; ++i) {
      greet(callers[i], house.context, {.rank = static_cast<uint32_t>(i)});
    }
    ASSERT_TRUE(eventually([&] {
      house.turn();
      return house.admitted.size() == before + Doorstep::kMostGuests;
    }));
  }
  for (const Fd& caller : callers) ASSERT_EQ(hear_answer(caller).kind, AnswerKind::kHeard);
}

TEST(Doorstep, AHelloMayComeInPiecesAndNothingBehindItIsRead) {
  House house;
  const Fd caller = house.stranger();
  const Hello hello = house.greeting_of(caller, 7);
  say(caller, bytes_of(hello).first(2));
  house.turn();
  say(caller, bytes_of(hello).subspan(2, sizeof(hello) - 3));
  house.turn();
  EXPECT_TRUE(house.admitted.empty());
  say(caller, bytes_of(hello).last(1));
  say(caller, text_bytes("behind"));
  ASSERT_TRUE(eventually([&] {
    house.turn();
    return !house.admitted.empty();
  }));
  EXPECT_EQ(house.admitted.front(), 7u);
  std::string behind(6, '\0');
  receive_all(house.sockets.front(), std::as_writable_bytes(std::span(behind)), Clock::now() + kAmple, "a test");
  EXPECT_EQ(behind, "behind");
}

TEST(Doorstep, AWrongProofIsClosedWithoutAWord) {
  House house;
  const Fd caller = house.stranger();
  Hello hello = house.greeting_of(caller, 7);
  hello.rank = 8;
  say(caller, bytes_of(hello));
  ASSERT_TRUE(eventually([&] {
    house.turn();
    return house.doorstep.num_guests() == 0;
  }));
  EXPECT_TRUE(is_turned_away_silently(caller));
  EXPECT_TRUE(house.admitted.empty());
}

TEST(Doorstep, WhoSaysNothingInTimeHasToGo) {
  House house;
  Doorstep impatient(house.listener, house.context, milliseconds(1));
  const Fd silent = house.stranger();
  const auto is_gone = [&] {
    impatient.turn([](const ProvenCaller&) { ADD_FAILURE() << "who says nothing is no guest"; });
    return house.has_been_sent_away(silent);
  };
  EXPECT_TRUE(eventually(is_gone));
  EXPECT_EQ(impatient.num_guests(), 0u);
}

TEST(Doorstep, WithoutDescriptorsTheOldestMakesRoom) {
  House house(milliseconds(200));  // for callers that answer at once; five times until all have been let in
  std::vector<Fd> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(house.stranger());
  const FewDescriptors few(8);
  for (const uint32_t i : {0, 20, 39}) {
    const Hello hello = house.greeting_of(strangers[i], i);
    say(strangers[i], bytes_of(hello));
    EXPECT_LE(house.doorstep.num_guests(), 8u);
  }
  EXPECT_TRUE(eventually([&] {
    house.turn();
    return house.admitted == std::vector<uint32_t>{0, 20, 39};
  }));
}

TEST(Doorstep, WithoutAnyDescriptorTheListenerIsNotPolledAndThatIsSaid) {
  House house;
  const Fd caller = house.stranger();
  std::vector<pollfd> watched;
  {
    const FewDescriptors none(0);
    house.turn();
    house.doorstep.watch(watched);
  }
  EXPECT_TRUE(watched.empty()) << "it would be readable, and nothing to be done about it";
  EXPECT_EQ(house.doorstep.trouble(), "; it could take no connection: Too many open files");
  house.turn();
  EXPECT_EQ(house.doorstep.trouble(), "");
  EXPECT_EQ(house.doorstep.num_guests(), 1u);
  house.doorstep.watch(watched);
  EXPECT_EQ(watched.size(), 2u) << "the listener and the guest";
}

}  // namespace
}  // namespace mk::test
