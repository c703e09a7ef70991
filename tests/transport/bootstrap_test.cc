// SPDX-License-Identifier: MIT
// tests/transport/bootstrap_test.cc — ranks meet, and whoever is not one of them has no effect.
#include "transport/bootstrap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/expect_error.h"
#include "tests/support/few_descriptors.h"
#include "tests/support/listener_queue.h"
#include "transport/bootstrap_message.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};

using Rank = std::future<std::unique_ptr<Bootstrap>>;

Rank join(const UniqueId& id, int rank, int size, milliseconds timeout = kAmple) {
  return std::async(std::launch::async, [=] { return std::make_unique<Bootstrap>(id, rank, size, timeout); });
}

// Rank 0 waits for the others while a test does what it does.
class Meeting {
 public:
  explicit Meeting(int size, milliseconds timeout = kAmple) : size_(size), rendezvous_(std::make_unique<Rendezvous>()) {
    id = rendezvous_->id();
    root_ = std::async(std::launch::async,
                       [this, timeout] { return std::make_unique<Bootstrap>(std::move(rendezvous_), size_, timeout); });
  }

  Fd stranger() const { return connect_to({"127.0.0.1", id.endpoints.front().port}, Clock::now() + kAmple); }

  // All other ranks join too; they exchange something.
  void is_unharmed() {
    std::vector<Rank> ranks;
    for (int rank = 1; rank < size_; ++rank) ranks.push_back(join(id, rank, size_));
    std::vector<std::unique_ptr<Bootstrap>> members;
    members.push_back(root_.get());
    for (Rank& rank : ranks) members.push_back(rank.get());
    exchange(members, 3);
  }

  static void exchange(const std::vector<std::unique_ptr<Bootstrap>>& members, int rounds) {
    const auto said = [](int round, int rank) {
      return std::string(rank * 1000, 'x') + fmt::format("{}/{}", round, rank);
    };
    std::vector<std::future<void>> done;
    for (const auto& member : members) {
      done.push_back(std::async(std::launch::async, [&] {
        for (int round = 0; round < rounds; ++round) {
          const std::vector<std::string> all = member->all_gather(said(round, member->rank()), "a test's words");
          ASSERT_EQ(all.size(), members.size());
          for (size_t rank = 0; rank < all.size(); ++rank) EXPECT_EQ(all[rank], said(round, static_cast<int>(rank)));
        }
      }));
    }
    for (std::future<void>& one : done) one.get();
  }

  Rank& root() { return root_; }

  UniqueId id;

 private:
  int size_;
  std::unique_ptr<Rendezvous> rendezvous_;
  Rank root_;
};

Hello hello_of(const Meeting& meeting, uint32_t rank, uint32_t size) {
  static uint32_t callers = 0;
  return {.rank = rank, .size = size, .caller = ++callers, .secret = meeting.id.secret};
}

void say(const Fd& socket, std::span<const std::byte> bytes) {
  send_all(socket, bytes, Clock::now() + kAmple, "a test");
}

// The peer closes; whatever it says before is in `heard`.
bool is_turned_away(const Fd& socket, std::string* heard = nullptr) {
  const Deadline until = Clock::now() + kAmple;
  while (Clock::now() < until) {
    std::byte bytes[256];
    const int64_t got = receive_some(socket, bytes);
    if (got < 0) return true;
    if (got > 0 && heard != nullptr) heard->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(got));
    const int fd = socket.number();
    if (got == 0) wait_readable({&fd, 1}, until);
  }
  return false;
}

// Whoever comes later is then heard later.
void await_heard(const Fd& socket) {
  MessageHead heard;
  receive_all(socket, writable_bytes_of(heard), Clock::now() + kAmple, "a test");
  EXPECT_EQ(heard.kind, MessageKind::kHeard);
}

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
  Hello hello = hello_of(meeting, 1, 2);
  hello.secret[15] ^= std::byte{1};
  say(stranger, bytes_of(hello));
  std::string heard;
  EXPECT_TRUE(is_turned_away(stranger, &heard));
  EXPECT_TRUE(heard.empty());
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
  say(half, bytes_of(hello_of(meeting, 1, 3)).first(20));
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

INSTANTIATE_TEST_SUITE_P(All, RefusedHello,
                         testing::Values(BadHello{"AnotherSize", 1, 4, "a world of 4 ranks; rank 0 has one of 3"},
                                         BadHello{"RankZero", 0, 3, "rank 0 cannot join"},
                                         BadHello{"BeyondTheLast", 3, 3, "it must be 1 to 2"},
                                         BadHello{"Huge", 0xffffffffu, 3, "cannot join"}),
                         [](const auto& info) { return info.param.name; });

TEST_P(RefusedHello, IsToldWhyAndChangesNothing) {
  Meeting meeting(3);
  const Fd stranger = meeting.stranger();
  say(stranger, bytes_of(hello_of(meeting, GetParam().rank, GetParam().size)));
  std::string heard;
  EXPECT_TRUE(is_turned_away(stranger, &heard));
  EXPECT_NE(heard.find(GetParam().said), std::string::npos) << heard;
  meeting.is_unharmed();
}

TEST(Bootstrap, ASecondOfTheSameRankIsRefusedAndTheFirstStays) {
  Meeting meeting(3);
  const Fd first = meeting.stranger();
  say(first, bytes_of(hello_of(meeting, 1, 3)));
  await_heard(first);
  const Fd second = meeting.stranger();
  say(second, bytes_of(hello_of(meeting, 1, 3)));
  std::string heard;
  EXPECT_TRUE(is_turned_away(second, &heard));
  EXPECT_NE(heard.find("rank 1 has joined already"), std::string::npos) << heard;
  const Rank two = join(meeting.id, 2, 3);
  EXPECT_EQ(meeting.root().get()->rank(), 0);
}

TEST(Bootstrap, TheSameCallerAtAnotherAddressIsClosedWithoutAWord) {
  Meeting meeting(3);
  const Hello hello = hello_of(meeting, 1, 3);
  const Fd first = meeting.stranger();
  say(first, bytes_of(hello));
  await_heard(first);
  const Fd second = meeting.stranger();
  say(second, bytes_of(hello));
  std::string heard;
  EXPECT_TRUE(is_turned_away(second, &heard));
  EXPECT_TRUE(heard.empty());
  const Rank two = join(meeting.id, 2, 3);
  EXPECT_EQ(meeting.root().get()->rank(), 0);
}

TEST(Bootstrap, ARankThatDiedBeforeAllHadJoinedMayComeAgain) {
  Meeting meeting(3);
  {
    const Fd first = meeting.stranger();
    say(first, bytes_of(hello_of(meeting, 1, 3)));
    await_heard(first);
  }
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
  const Fd rank = meeting.stranger();
  say(rank, bytes_of(hello_of(meeting, 1, 2)));
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
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 2 has left the World before words"}, [&] { root->all_gather("0", "words"); }));
  root.reset();  // then the one that stays hears that it is alone
}

TEST(Bootstrap, ARankThatIsLateIsNamed) {
  auto rendezvous = std::make_unique<Rendezvous>();
  const Rank one = join(local_id(*rendezvous), 1, 2);
  ASSERT_TRUE(eventually([&] { return num_in_queue(rendezvous->listener()) == 1; }));
  Bootstrap root(std::move(rendezvous), 2, milliseconds(1000));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 1 did not come to words within 1000 ms"}, [&] { root.all_gather("", "words"); }));
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
