// SPDX-License-Identifier: MIT
// tests/transport/bootstrap_test.cc — ranks meet, and whoever is not one of them has no effect.
#include "transport/bootstrap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/expect_error.h"
#include "tests/support/few_descriptors.h"
#include "tests/support/handshaker.h"
#include "tests/support/listener_queue.h"
#include "tests/support/meeting.h"
#include "transport/bootstrap_message.h"
#include "transport/doorstep.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;

// So that there is one way to it.
UniqueId local_id(const Rendezvous& rendezvous) {
  return {rendezvous.secret(), {{"127.0.0.1", static_cast<uint16_t>(port_of(rendezvous.listener()))}}};
}

// One at which nobody listens.
uint16_t free_port() { return static_cast<uint16_t>(port_of(open_listener())); }

class BootstrapSizes : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Sizes, BootstrapSizes, testing::Values(1, 2, 3, 8, 16));

TEST_P(BootstrapSizes, EveryRankHearsWhatEveryRankSaid) { Meeting(GetParam()).is_unharmed(); }

TEST(Bootstrap, RanksMayComeBeforeRankZeroDoes) {
  const UniqueId id{random_secret(), {{"127.0.0.1", free_port()}}};
  Rank one = join(id, 1, 2);
  Bootstrap root(std::make_unique<Rendezvous>(id.endpoints.front().port, id.secret), 2, kAmple);
  EXPECT_EQ(one.get()->size(), 2);
}

// Rank 1 has called before rank 0's time begins, so that the time has to do for little.
TEST(Bootstrap, AMissingRankIsNamedToAll) {
  auto rendezvous = std::make_unique<Rendezvous>();
  Rank one = join(local_id(*rendezvous), 1, 4);
  ASSERT_TRUE(eventually([&] { return num_in_queue(rendezvous->listener()) == 1; }));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 0 waited 1000 ms for ranks 2, 3 of 4 to join"},
                     [&] { Bootstrap(std::move(rendezvous), 4, milliseconds(1000)); }));
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"ranks 2, 3 of 4"}, [&] { one.get(); }));
}

TEST(Bootstrap, ARankWhoseDeadlineComesFirstNamesTheMissing) {
  Meeting meeting(4);
  Rank one = join(meeting.id, 1, 4, milliseconds(800));
  Rank three = join(meeting.id, 3, 4, milliseconds(800));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 1 waited 800 ms for ranks 2", "of 4 to join"}, [&] { one.get(); }));
  EXPECT_TRUE(
      throws(ErrorCode::kTimeout, {"rank 3 waited 800 ms for ranks", "2", "of 4 to join"}, [&] { three.get(); }));
  meeting.is_unharmed();
}

TEST(Bootstrap, ARankWhoseRootLeavesNamesTheMissing) {
  const Rendezvous rendezvous;
  Rank one = join(local_id(rendezvous), 1, 4);
  Doorstep doorstep(rendezvous.listener(), {rendezvous.secret(), HandshakeContext::Purpose::kMeeting, 0}, kAmple);
  Fd joined;
  ASSERT_TRUE(eventually([&] {
    doorstep.turn([&](ProvenCaller caller) { joined = caller.accept(); });
    return static_cast<bool>(joined);
  }));
  const std::string missing = "2, 3";
  const MessageHead head{.kind = MessageKind::kMissing, .bytes = static_cast<uint32_t>(missing.size())};
  send_all(joined, bytes_of(head), Clock::now() + kAmple, "a head");
  send_all(joined, std::as_bytes(std::span(missing)), Clock::now() + kAmple, "a text");
  joined = Fd();
  EXPECT_TRUE(
      throws(ErrorCode::kFabric, {"rank 0 left while rank 1 waited for ranks 2, 3 to join"}, [&] { one.get(); }));
}

// However many are missing, what rank 0 says of them is short.
TEST(Bootstrap, ManyMissingRanksAreNamedInPart) {
  Meeting meeting(3000, milliseconds(700));
  Rank one = join(meeting.id, 1, 3000, milliseconds(500));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"for ranks 2, 3, 4", "and 2982 more of 3000 to join"}, [&] { one.get(); }));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"and 298", "more of 3000"}, [&] { meeting.root().get(); }));
}

TEST(Bootstrap, ARankZeroThatCannotLetAnybodyInSaysWhy) {
  auto rendezvous = std::make_unique<Rendezvous>();
  const Fd caller = connect_to(local_id(*rendezvous).endpoints.front(), Clock::now() + kAmple);
  EXPECT_TRUE(
      throws(ErrorCode::kTimeout, {"ranks 1 of 2 to join; it could take no connection: Too many open files"}, [&] {
        const FewDescriptors none(0);
        Bootstrap(std::move(rendezvous), 2, milliseconds(200));
      }));
}

TEST(Bootstrap, ARankWithoutARootGivesUpInTime) {
  const UniqueId id{random_secret(), {{"127.0.0.1", free_port()}}};
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 3 could not reach rank 0", "127.0.0.1"},
                     [&] { Bootstrap(id, 3, 4, milliseconds(200)); }));
}

TEST(Bootstrap, AWrongSecretIsTurnedAwayWithoutAWord) {
  Meeting meeting(2);
  const Fd stranger = meeting.stranger();
  HandshakeContext wrong = meeting.context();
  wrong.secret[15] ^= std::byte{1};
  greet(stranger, wrong, Meeting::hello_as(1, 2));
  EXPECT_TRUE(is_turned_away_silently(stranger));
  meeting.is_unharmed();
}

TEST(Bootstrap, ARankWithTheWrongSecretSaysThatItWasNotTaken) {
  Meeting meeting(2);
  UniqueId wrong = meeting.id;
  wrong.secret[0] ^= std::byte{0x80};
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 1 could not reach rank 0", "closed the connection", "another secret"},
                     [&] { Bootstrap(wrong, 1, 2, kAmple / 4); }));
  meeting.is_unharmed();
}

TEST(Bootstrap, NoiseAndSilenceAndHalfAHelloDoNotDelayTheOthers) {
  Meeting meeting(3);
  const Fd silent = meeting.stranger();
  const Fd noisy = meeting.stranger();
  std::vector<std::byte> noise(4096, std::byte{'G'});
  say(noisy, noise);
  const Fd half = meeting.stranger();
  const Hello hello = prove(meeting.context(), hear_challenge(half), Meeting::hello_as(1, 3));
  say(half, bytes_of(hello).first(sizeof(hello) - 1));
  { const Fd gone = meeting.stranger(); }
  meeting.is_unharmed();
}

TEST(Bootstrap, ManyStrangersLeaveRoomForRanks) {
  Meeting meeting(2);
  std::vector<Fd> strangers;
  for (int i = 0; i < 400; ++i) strangers.push_back(meeting.stranger());
  meeting.is_unharmed();
}

struct BadHello {
  const char* name;
  uint32_t rank;
  uint32_t size;
  const char* said;
};

class RefusedHello : public testing::TestWithParam<BadHello> {};

INSTANTIATE_TEST_SUITE_P(
    All, RefusedHello,
    testing::Values(BadHello{"AnotherSize", 2, 4, "rank 2 has a world of 4 ranks (WORLD_SIZE?); rank 0 has one of 3"},
                    BadHello{"RankZero", 0, 3, "rank 0 (RANK?) cannot join"},
                    BadHello{"BeyondTheLast", 3, 3,
                             "rank 3 (RANK?) cannot join rank 0 in a world of 3; it must be 1 to 2"},
                    BadHello{"Huge", 0xffffffffu, 3, "cannot join"}),
    [](const auto& info) { return info.param.name; });

// Who knows the secret belongs to the job, so the job was started wrong: no rank waits for the deadline.
TEST_P(RefusedHello, EndsTheMeetingForAllWhoHaveJoined) {
  Meeting meeting(3);
  const Fd joined = meeting.known_stranger(Meeting::hello_as(1, 3));
  const Fd wrong = meeting.stranger();
  greet(wrong, meeting.context(), Meeting::hello_as(GetParam().rank, GetParam().size));
  std::string text;
  EXPECT_EQ(hear_answer(wrong, &text).kind, AnswerKind::kRefused);
  EXPECT_NE(text.find(GetParam().said), std::string::npos) << text;
  EXPECT_TRUE(throws(ErrorCode::kFabric, {GetParam().said}, [&] { meeting.root().get(); }));
  MessageHead head{.kind = MessageKind::kMissing};
  std::string told;
  while (head.kind == MessageKind::kMissing) {  // who has not joined yet is said again and again
    receive_all(joined, writable_bytes_of(head), Clock::now() + kAmple, "a test");
    told.resize(head.bytes);
    receive_all(joined, std::as_writable_bytes(std::span(told)), Clock::now() + kAmple, "a test");
  }
  EXPECT_EQ(head.kind, MessageKind::kRefused);
  EXPECT_EQ(told, text);
  EXPECT_TRUE(is_turned_away(joined));
}

TEST(Bootstrap, ASecondOfTheSameRankIsRefusedAndTheFirstStays) {
  Meeting meeting(3);
  const Fd first = meeting.known_stranger(Meeting::hello_as(1, 3));
  const Fd second = meeting.stranger();
  greet(second, meeting.context(), Meeting::hello_as(1, 3));
  std::string heard;
  EXPECT_EQ(hear_answer(second, &heard).kind, AnswerKind::kRefused);
  EXPECT_EQ(heard, "rank 1 has joined already");
  EXPECT_TRUE(is_turned_away_silently(second));
  const Rank two = join(meeting.id, 2, 3);
  EXPECT_EQ(meeting.root().get()->rank(), 0);
}

TEST(Bootstrap, TheSameCallerAtAnotherAddressIsClosedWithoutAWord) {
  Meeting meeting(3);
  const Hello caller = Meeting::hello_as(1, 3);
  const Fd first = meeting.known_stranger(caller);
  const Fd second = meeting.stranger();
  greet(second, meeting.context(), caller);
  EXPECT_TRUE(is_turned_away_silently(second));
  const Rank two = join(meeting.id, 2, 3);
  EXPECT_EQ(meeting.root().get()->rank(), 0);
}

TEST(Bootstrap, ARankThatDiedBeforeAllHadJoinedMayComeAgain) {
  Meeting meeting(3);
  { const Fd first = meeting.known_stranger(Meeting::hello_as(1, 3)); }
  meeting.is_unharmed();
}

// They connect and go, as fast as they can, until rank 0 has given up.
TEST(Bootstrap, AFloodOfStrangersDoesNotMoveTheDeadline) {
  const Deadline begin = Clock::now();
  Meeting meeting(2, milliseconds(500));
  std::atomic<bool> done = false;
  std::vector<std::thread> flood;
  for (int i = 0; i < 3; ++i) {
    flood.emplace_back([&] {
      while (!done && Clock::now() < begin + kAmple) {
        try {
          abort_on_close(
              connect_to({"127.0.0.1", meeting.id.endpoints.front().port}, Clock::now() + milliseconds(100)));
        } catch (const Error&) {
        }
      }
    });
  }
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"ranks 1 of 2"}, [&] { meeting.root().get(); }));
  EXPECT_LT(Clock::now(), begin + kAmple / 2);
  done = true;
  for (std::thread& one : flood) one.join();
}

TEST(Bootstrap, AnOversizedLengthIsNotBelieved) {
  Meeting meeting(2);
  const Fd rank = meeting.known_stranger(Meeting::hello_as(1, 2));
  const std::unique_ptr<Bootstrap> root = meeting.root().get();
  say(rank, bytes_of(MessageHead{.bytes = kMostMessageBytes + 1, .number = 1}));
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 1", "no message of a World"}, [&] { root->all_gather("", "words"); }));
}

TEST(Bootstrap, ARankThatLeavesIsNamed) {
  Meeting meeting(3);
  Rank one = join(meeting.id, 1, 3);
  Rank two = join(meeting.id, 2, 3);
  std::unique_ptr<Bootstrap> root = meeting.root().get();
  const std::unique_ptr<Bootstrap> stays = one.get();
  two.get().reset();
  const auto said = std::async(std::launch::async, [&] {
    EXPECT_TRUE(throws(ErrorCode::kFabric, {}, [&] { stays->all_gather("1", "words"); }));
  });
  EXPECT_TRUE(
      throws(ErrorCode::kFabric, {"rank 2 has left the World before words"}, [&] { root->all_gather("0", "words"); }));
  root.reset();  // then the one that stays hears that it is alone
}

TEST(Bootstrap, ARankThatIsLateIsNamed) {
  auto rendezvous = std::make_unique<Rendezvous>();
  const Rank one = join(local_id(*rendezvous), 1, 2);
  ASSERT_TRUE(eventually([&] { return num_in_queue(rendezvous->listener()) == 1; }));
  Bootstrap root(std::move(rendezvous), 2, milliseconds(1000));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 1 did not come to words within 1000 ms"},
                     [&] { root.all_gather("", "words"); }));
}

TEST(Bootstrap, TwoWorldsOnOneMachineDoNotMeet) {
  Meeting one(3), other(3);
  UniqueId crossed = one.id;
  crossed.secret = other.id.secret;  // knocks at the wrong door
  EXPECT_TRUE(throws(ErrorCode::kFabric, {}, [&] { Bootstrap(crossed, 1, 3, kAmple / 4); }));
  one.is_unharmed();
  other.is_unharmed();
}

TEST(Bootstrap, BadSizesAreRefused) {
  const UniqueId id{random_secret(), {{"127.0.0.1", 1}}};
  EXPECT_TRUE(refuses({"size is 0"}, [&] { Bootstrap(id, 1, 0, kAmple); }));
  EXPECT_TRUE(refuses({"rank is 2", "0 to 1"}, [&] { Bootstrap(id, 2, 2, kAmple); }));
  EXPECT_TRUE(refuses({"rank is 0"}, [&] { Bootstrap(id, 0, 2, kAmple); }));
  EXPECT_TRUE(refuses({"timeout is 0"}, [&] { Bootstrap(id, 1, 2, milliseconds(0)); }));
}

TEST(UniqueId, SurvivesBeingText) {
  const Rendezvous rendezvous;
  const UniqueId id = rendezvous.id();
  const UniqueId again = UniqueId::parse(id.to_string());
  EXPECT_TRUE(equal(again.secret, id.secret));
  EXPECT_EQ(again.endpoints, id.endpoints);
  const UniqueId six{id.secret, {{"::1", 7}, {"host.example", 65535}}};
  EXPECT_EQ(UniqueId::parse(six.to_string()).endpoints, six.endpoints);
}

TEST(UniqueId, IsNeverTheSameTwice) { EXPECT_FALSE(equal(Rendezvous().id().secret, Rendezvous().id().secret)); }

TEST(UniqueId, BadTextIsRefusedAndTheSecretNotShown) {
  const std::string secret(32, 'a');
  for (const std::string& text : {std::string(""), std::string("mkernel1"), "mkernel2;" + secret + ";h:1",
                                  "mkernel1;" + secret.substr(1) + ";h:1", "mkernel1;" + secret.substr(1) + "g;h:1",
                                  "mkernel1;" + secret, "mkernel1;" + secret + ";h", "mkernel1;" + secret + ";h:65536",
                                  "mkernel1;" + secret + ";:1", "mkernel1;" + secret + ";h:1x"}) {
    try {
      UniqueId::parse(text);
      ADD_FAILURE() << text << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(std::string(error.what()).find("aaaa"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace mk::test
