// SPDX-License-Identifier: MIT
// tests/transport/doorstep_test.cc — strangers at a listener cost little, however many they are, and peers get through.
#include "transport/doorstep.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/eventually.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};
constexpr size_t kHelloBytes = 8;

class Doorsteps : public testing::Test {
 protected:
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

TEST_F(Doorsteps, ATurnLetsInAFewAndThereIsRoomForSome) {
  std::vector<Fd> strangers;
  for (size_t i = 0; i < Doorstep::kMostGuests + 100; ++i) strangers.push_back(stranger());
  turn();
  EXPECT_EQ(doorstep.num_guests(), static_cast<size_t>(Doorstep::kMostAtOnce));
  for (size_t i = 0; i < strangers.size(); ++i) {
    turn();
    ASSERT_LE(doorstep.num_guests(), Doorstep::kMostGuests);
  }
  EXPECT_EQ(doorstep.num_guests(), Doorstep::kMostGuests);
  std::byte byte;
  EXPECT_EQ(receive_some(strangers.front(), {&byte, 1}), -1) << "the oldest has to go";
  EXPECT_EQ(receive_some(strangers.back(), {&byte, 1}), 0) << "the newest stays";
}

TEST_F(Doorsteps, WhoHasSaidItsHelloIsHeardHoweverManyTheyAre) {
  constexpr size_t kCallers = 2 * Doorstep::kMostGuests;
  std::vector<Fd> callers;
  for (size_t i = 0; i < kCallers; ++i) {
    callers.push_back(stranger());
    say(callers.back(), "12345678");
  }
  for (size_t i = 0; i < kCallers; ++i) turn();
  EXPECT_EQ(admitted.size(), kCallers);
  EXPECT_EQ(doorstep.num_guests(), 0u);
}

TEST_F(Doorsteps, AHelloMayComeInPiecesAndNothingBehindItIsRead) {
  const Fd caller = stranger();
  for (const char* piece : {"12", "345", "678behind"}) {
    EXPECT_TRUE(admitted.empty());
    say(caller, piece);
    turn();
  }
  ASSERT_TRUE(eventually([&] {
    turn();
    return !admitted.empty();
  }));
  EXPECT_EQ(admitted.front(), "12345678");
  std::string behind(6, '\0');
  receive_all(sockets.front(), std::as_writable_bytes(std::span(behind)), Clock::now() + kAmple, "a test");
  EXPECT_EQ(behind, "behind");
}

TEST_F(Doorsteps, WhoSaysNothingInTimeHasToGo) {
  Doorstep impatient(listener, kHelloBytes, milliseconds(1));
  const Fd silent = stranger();
  const auto is_gone = [&] {
    impatient.turn([](Fd, std::span<const std::byte>) { ADD_FAILURE() << "who says nothing is no guest"; });
    std::byte byte;
    return receive_some(silent, {&byte, 1}) == -1;
  };
  EXPECT_TRUE(eventually(is_gone));
  EXPECT_EQ(impatient.num_guests(), 0u);
}

// No more descriptors than there are, and one less than that, until it goes out of scope.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(0);
    close(next);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(next + more);
    setrlimit(RLIMIT_NOFILE, &now);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(Doorsteps, WithoutDescriptorsTheOldestMakesRoom) {
  std::vector<Fd> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(stranger());
  for (const int i : {0, 20, 39}) say(strangers[i], "12345678");
  const FewDescriptors few(8);
  for (int i = 0; i < 10; ++i) turn();
  EXPECT_EQ(admitted.size(), 3u) << "who has said its hello is heard before it has to make room";
  EXPECT_LE(doorstep.num_guests(), 8u);
}

TEST_F(Doorsteps, WithoutAnyDescriptorTheListenerIsNotPolled) {
  const Fd caller = stranger();
  say(caller, "12345678");
  std::vector<pollfd> watched;
  {
    const FewDescriptors none(0);
    turn();
    doorstep.watch(watched);
  }
  EXPECT_TRUE(watched.empty()) << "it would be readable, and nothing to be done about it";
  turn();
  EXPECT_EQ(admitted.size(), 1u);
  doorstep.watch(watched);
  EXPECT_EQ(watched.size(), 1u);
}

}  // namespace
}  // namespace mk::test
