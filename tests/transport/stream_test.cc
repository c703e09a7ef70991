// SPDX-License-Identifier: MIT
// tests/transport/stream_test.cc — a connection to one of several places, and names nobody looks up.
#include "transport/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

#include "tests/support/expect_error.h"
#include "tests/support/silent_place.h"
#include "transport/name_look_up.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};

SocketAddress local(int port) { return SocketAddress::v4({htonl(INADDR_LOOPBACK)}, port); }

TEST(Connecting, APlaceThatIsSilentDoesNotKeepTheOthersFromBeingTried) {
  const SilentPlace silent;
  const Fd listener = open_listener();
  const SocketAddress places[] = {silent.place(), local(port_of(listener))};
  EXPECT_TRUE(connect_to(places, Clock::now() + kAmple));
}

TEST(Connecting, APlaceThatRefusesLeadsToTheNextAtOnce) {
  const int gone = port_of(open_listener());
  const Fd listener = open_listener();
  const SocketAddress places[] = {local(gone), local(gone), local(port_of(listener))};
  EXPECT_TRUE(connect_to(places, Clock::now() + kAmple));
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"no connection to 127.0.0.1", "refused"},
                     [&] { connect_to(std::span(places).first(2), Clock::now() + kAmple); }));
}

TEST(Connecting, WhereAllAreSilentTheDeadlineHolds) {
  const SilentPlace silent;
  const SocketAddress places[] = {silent.place(), silent.place()};
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"a connection to 127.0.0.1"},
                     [&] { connect_to(places, Clock::now() + milliseconds(300)); }));
}

TEST(NameLookUp, ANameServerThatDoesNotAnswerIsNotWaitedFor) {
  std::promise<void> answer;
  const auto asked = std::make_shared<std::shared_future<void>>(answer.get_future());
  const auto answered = std::make_shared<std::atomic<bool>>(false);
  {
    const NameLookUp look_up({"host.example", 1}, [=](const Endpoint&) {
      asked->wait_for(kAmple);
      *answered = true;
      return NameLookUp::Addresses{};
    });
    EXPECT_FALSE(look_up.is_done(Clock::now() + milliseconds(20)));
  }
  EXPECT_FALSE(*answered) << "it was waited for";
  answer.set_value();
}

TEST(NameLookUp, AnAnswerMayComeLate) {
  std::promise<void> answer;
  const auto asked = std::make_shared<std::shared_future<void>>(answer.get_future());
  NameLookUp look_up({"host.example", 1}, [=](const Endpoint& endpoint) {
    asked->wait_for(kAmple);
    return NameLookUp::Addresses{local(endpoint.port)};
  });
  EXPECT_FALSE(look_up.is_done(Clock::now()));
  answer.set_value();
  ASSERT_TRUE(look_up.is_done(Clock::now() + kAmple));
  EXPECT_EQ(to_text(look_up.take().at(0)), "127.0.0.1 port 1");
}

TEST(NameLookUp, ANumberIsThereAtOnce) {
  for (const char* host : {"127.0.0.1", "::1", "fe80::1%lo"}) {
    NameLookUp look_up({host, 4711});
    ASSERT_TRUE(look_up.is_done(Clock::now())) << host;
    EXPECT_EQ(look_up.take().size(), 1u) << host;
  }
  for (const char* name : {"localhost", "127.0.0.1.example", "", "node7"})
    EXPECT_FALSE((Endpoint{name, 1}.is_number()));
}

TEST(NameLookUp, AHostWithoutAnAddressIsAnErrorOfWhoAsks) {
  NameLookUp look_up({"host.example", 1}, [](const Endpoint&) -> NameLookUp::Addresses {
    throw Error(ErrorCode::kInvalidArgument, "host is 'host.example'");
  });
  ASSERT_TRUE(look_up.is_done(Clock::now() + kAmple));
  EXPECT_TRUE(refuses({"host.example"}, [&] { look_up.take(); }));
}

}  // namespace
}  // namespace mk::test
