// SPDX-License-Identifier: MIT
// tests/transport/doorstep_test.cc — strangers at a listener cost little, however many they are, and peers get through.
#include "transport/doorstep.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/few_descriptors.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};
constexpr size_t kHelloBytes = 8;

// Not a fixture: sanitizers look at objects with virtual functions, and need a descriptor for that.
struct House {
  Fd stranger() const {
    const SocketAddress place = SocketAddress::v4({htonl(INADDR_LOOPBACK)}, port_of(listener));
    return connect_to({&place, 1}, Clock::now() + kAmple);
  }
  static void say(const Fd& socket, const std::string& words) {
    send_all(socket, std::as_bytes(std::span(words)), Clock::now() + kAmple, "a test");
  }
  void turn() {
    doorstep.turn([&](Fd socket, std::span<const std::byte> hello) {
      admitted.emplace_back(reinterpret_cast<const char*>(hello.data()), hello.size());
      sockets.push_back(std::move(socket));
    });
  }

  Fd listener = open_listener();
  Doorstep doorstep{listener, kHelloBytes, kAmple};
  std::vector<std::string> admitted;
  std::vector<Fd> sockets;
};

TEST(Doorstep, ATurnLetsInAFewAndThereIsRoomForSome) {
  House house;
  std::vector<Fd> strangers;
  for (size_t i = 0; i < Doorstep::kMostGuests + 100; ++i) strangers.push_back(house.stranger());
  house.turn();
  EXPECT_EQ(house.doorstep.num_guests(), static_cast<size_t>(Doorstep::kMostAtOnce));
  for (size_t i = 0; i < strangers.size(); ++i) {
    house.turn();
    ASSERT_LE(house.doorstep.num_guests(), Doorstep::kMostGuests);
  }
  EXPECT_EQ(house.doorstep.num_guests(), Doorstep::kMostGuests);
  std::byte byte;
  EXPECT_EQ(receive_some(strangers.front(), {&byte, 1}), -1) << "the oldest has to go";
  EXPECT_EQ(receive_some(strangers.back(), {&byte, 1}), 0) << "the newest stays";
}

TEST(Doorstep, WhoHasSaidItsHelloIsHeardHoweverManyTheyAre) {
  House house;
  constexpr size_t kCallers = 2 * Doorstep::kMostGuests;
  std::vector<Fd> callers;
  for (size_t i = 0; i < kCallers; ++i) {
    callers.push_back(house.stranger());
    house.say(callers.back(), "12345678");
  }
  for (size_t i = 0; i < kCallers; ++i) house.turn();
  EXPECT_EQ(house.admitted.size(), kCallers);
  EXPECT_EQ(house.doorstep.num_guests(), 0u);
}

TEST(Doorstep, AHelloMayComeInPiecesAndNothingBehindItIsRead) {
  House house;
  const Fd caller = house.stranger();
  for (const char* piece : {"12", "345", "678behind"}) {
    EXPECT_TRUE(house.admitted.empty());
    house.say(caller, piece);
    house.turn();
  }
  ASSERT_TRUE(eventually([&] {
    house.turn();
    return !house.admitted.empty();
  }));
  EXPECT_EQ(house.admitted.front(), "12345678");
  std::string behind(6, '\0');
  receive_all(house.sockets.front(), std::as_writable_bytes(std::span(behind)), Clock::now() + kAmple, "a test");
  EXPECT_EQ(behind, "behind");
}

TEST(Doorstep, WhoSaysNothingInTimeHasToGo) {
  House house;
  Doorstep impatient(house.listener, kHelloBytes, milliseconds(1));
  const Fd silent = house.stranger();
  const auto is_gone = [&] {
    impatient.turn([](Fd, std::span<const std::byte>) { ADD_FAILURE() << "who says nothing is no guest"; });
    std::byte byte;
    return receive_some(silent, {&byte, 1}) == -1;
  };
  EXPECT_TRUE(eventually(is_gone));
  EXPECT_EQ(impatient.num_guests(), 0u);
}

TEST(Doorstep, WithoutDescriptorsTheOldestMakesRoom) {
  House house;
  std::vector<Fd> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(house.stranger());
  for (const int i : {0, 20, 39}) house.say(strangers[i], "12345678");
  const FewDescriptors few(8);
  for (int i = 0; i < 10; ++i) house.turn();
  EXPECT_EQ(house.admitted.size(), 3u) << "who has said its hello is heard before it has to make room";
  EXPECT_LE(house.doorstep.num_guests(), 8u);
}

TEST(Doorstep, WithoutAnyDescriptorTheListenerIsNotPolledAndThatIsSaid) {
  House house;
  const Fd caller = house.stranger();
  house.say(caller, "12345678");
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
  EXPECT_EQ(house.admitted.size(), 1u);
  house.doorstep.watch(watched);
  EXPECT_EQ(watched.size(), 1u);
}

}  // namespace
}  // namespace mk::test
