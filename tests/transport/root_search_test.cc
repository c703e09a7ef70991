// SPDX-License-Identifier: MIT
// tests/transport/root_search_test.cc — rank 0 is found among addresses that are silent, somebody else's, or its own
// twice.
#include "transport/root_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/expect_error.h"
#include "tests/support/listener_queue.h"
#include "tests/support/silent_place.h"
#include "transport/bootstrap.h"
#include "transport/handshake.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};

Endpoint local(int port) { return {"127.0.0.1", static_cast<uint16_t>(port)}; }

template <class T>
std::string text_of(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Somebody else's listener: it accepts, and says to each who comes what a test wants.  It may also say what it hears,
// or speak as rank 0 does, without knowing the secret.
class Other {
 public:
  enum class Manner { kTalks, kEchoes, kCloses, kSaysHeard, kRefuses, kReflects, kBeginsToRefuse };

  Other(Manner manner, std::string words)
      : thread_([this, manner, words = std::move(words)] {
          std::vector<Fd> kept;
          std::vector<std::byte> heard(256);
          while (!done_) {
            const int fd = listener_.number();
            wait_readable({&fd, 1}, Clock::now() + milliseconds(5));
            if (Fd caller = accept_from(listener_)) {
              send(caller.number(), words.data(), words.size(), MSG_NOSIGNAL);
              if (manner != Manner::kCloses) kept.push_back(std::move(caller));
              ++num_callers_;
            }
            for (const Fd& one : kept) {
              const int64_t got = receive_some(one, heard);
              if (got > 0 && manner == Manner::kEchoes) send(one.number(), heard.data(), got, MSG_NOSIGNAL);
              if (got == sizeof(Hello)) answer(one, manner, heard);
            }
          }
        }) {}
  // One that speaks as rank 0 does.
  explicit Other(Manner manner) : Other(manner, text_of(fresh_challenge())) {}
  ~Other() {
    done_ = true;
    thread_.join();
  }

  Endpoint endpoint() const { return local(port_of(listener_)); }
  int num_callers() const { return num_callers_; }

 private:
  static void answer(const Fd& caller, Manner manner, std::span<const std::byte> heard) {
    constexpr std::string_view kWhy = "you are not wanted";
    Hello hello;
    std::memcpy(&hello, heard.data(), sizeof(hello));
    AnswerHead head{.proof = hello.proof};
    if (manner != Manner::kReflects) fill_random(head.proof);
    if (manner == Manner::kRefuses || manner == Manner::kBeginsToRefuse) {
      head.kind = AnswerKind::kRefused;
      head.bytes = kWhy.size();
    }
    std::string said = text_of(head);
    if (manner == Manner::kRefuses) said += kWhy;
    const bool answers = manner == Manner::kSaysHeard || manner == Manner::kReflects || head.bytes > 0;
    if (answers) send(caller.number(), said.data(), said.size(), MSG_NOSIGNAL);
  }

  Fd listener_ = open_listener();
  std::atomic<int> num_callers_ = 0;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

std::future<std::unique_ptr<Bootstrap>> join(const UniqueId& id, int rank, int size, milliseconds timeout = kAmple) {
  return std::async(std::launch::async, [=] { return std::make_unique<Bootstrap>(id, rank, size, timeout); });
}

// All other ranks find rank 0, whose address comes after that of the other.
testing::AssertionResult find_root_behind(const Endpoint& other, int size = 2) {
  auto rendezvous = std::make_unique<Rendezvous>();
  const UniqueId id{rendezvous->secret(), {other, local(port_of(rendezvous->listener()))}};
  std::vector<std::future<std::string>> ranks;
  for (int rank = 1; rank < size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [=]() -> std::string {
      try {
        const auto all = Bootstrap(id, rank, size, kAmple).all_gather(std::to_string(rank), "words");
        return all.back() == std::to_string(size - 1) ? "" : "it does not hear the last";
      } catch (const Error& error) {
        return error.what();
      }
    }));
  }
  std::string trouble;
  try {
    Bootstrap(std::move(rendezvous), size, kAmple).all_gather("0", "words");
  } catch (const Error& error) {
    trouble = error.what();
  }
  for (int rank = 1; rank < size; ++rank) {
    if (const std::string of_rank = ranks[rank - 1].get(); !of_rank.empty())
      trouble += fmt::format("; rank {}: {}", rank, of_rank);
  }
  return trouble.empty() ? testing::AssertionSuccess() : testing::AssertionFailure() << trouble;
}

TEST(RootSearch, AnAddressThatIsSilentIsNotWaitedFor) {
  const SilentPlace silent;
  EXPECT_TRUE(find_root_behind(silent.endpoint()));
}

TEST(RootSearch, WhoTakesTheConnectionAndIsNotRankZeroIsPassedOver) {
  EXPECT_TRUE(find_root_behind(Other(Other::Manner::kTalks, "").endpoint())) << "one that listens for ever";
  EXPECT_TRUE(find_root_behind(Other(Other::Manner::kTalks, "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n").endpoint()));
  EXPECT_TRUE(find_root_behind(Other(Other::Manner::kCloses, "").endpoint()));
  EXPECT_TRUE(find_root_behind(Other(Other::Manner::kCloses, "half a head").endpoint()));
}

TEST(RootSearch, WhoEchoesAHelloHasNotAnsweredIt) {
  for (const int size : {2, 3, 4, 17}) {
    EXPECT_TRUE(find_root_behind(Other(Other::Manner::kEchoes).endpoint(), size)) << size << " ranks";
  }
  EXPECT_TRUE(find_root_behind(Other(Other::Manner::kReflects).endpoint())) << "the caller's proof as its own";
}

TEST(RootSearch, WhoAnswersWithoutTheSecretIsNotBelieved) {
  EXPECT_TRUE(find_root_behind(Other(Other::Manner::kSaysHeard).endpoint()));
  EXPECT_TRUE(find_root_behind(Other(Other::Manner::kRefuses).endpoint()));
}

TEST(RootSearch, WhoAnswersWithoutTheSecretIsNamed) {
  const Other fake(Other::Manner::kSaysHeard);
  const UniqueId id{random_secret(), {fake.endpoint()}};
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {fmt::format("port {} is not rank 0", fake.endpoint().port)},
                     [&] { Bootstrap(id, 1, 2, milliseconds(500)); }));
  EXPECT_GE(fake.num_callers(), 1);
}

TEST(RootSearch, WhoDoesNotFinishItsRefusalIsNotWaitedFor) {
  EXPECT_TRUE(find_root_behind(Other(Other::Manner::kBeginsToRefuse).endpoint()));
}

TEST(RootSearch, RankZerosRefusalIsTheReason) {
  auto rendezvous = std::make_unique<Rendezvous>();
  const UniqueId id{rendezvous->secret(), {local(port_of(rendezvous->listener()))}};
  constexpr const char* kWhy = "rank 1 has a world of 4 ranks (WORLD_SIZE?); rank 0 has one of 3";
  auto root = std::async(std::launch::async, [&] {
    return throws(ErrorCode::kFabric, {kWhy}, [&] { Bootstrap(std::move(rendezvous), 3, kAmple); });
  });
  EXPECT_TRUE(refuses({kWhy}, [&] { Bootstrap(id, 1, 4, kAmple); }));
  EXPECT_TRUE(root.get());
}

TEST(RootSearch, AnotherWorldsRankZeroIsPassedOver) {
  auto rendezvous = std::make_unique<Rendezvous>();
  const int port = port_of(rendezvous->listener());
  auto other = std::async(std::launch::async, [&] {
    return throws(ErrorCode::kTimeout, {"ranks 1 of 2"},
                  [&] { Bootstrap(std::move(rendezvous), 2, milliseconds(1500)); });
  });
  EXPECT_TRUE(find_root_behind(local(port)));
  EXPECT_TRUE(other.get());
}

// It listens, and comes to its own join when the others have called at all its addresses.
TEST(RootSearch, ARankZeroThatIsReachedAtSeveralAddressesCountsEachRankOnce) {
  constexpr int kSize = 4;
  auto rendezvous = std::make_unique<Rendezvous>();
  const auto port = static_cast<uint16_t>(port_of(rendezvous->listener()));
  const UniqueId id{rendezvous->secret(), {{"127.0.0.1", port}, {"127.0.0.2", port}, {"127.0.0.3", port}}};
  std::vector<std::future<std::unique_ptr<Bootstrap>>> ranks;
  for (int rank = 1; rank < kSize; ++rank) ranks.push_back(join(id, rank, kSize));
  ASSERT_TRUE(eventually([&] { return num_in_queue(rendezvous->listener()) == 3 * (kSize - 1); }));
  Bootstrap root(std::move(rendezvous), kSize, kAmple);
  std::vector<std::future<std::vector<std::string>>> said;
  for (auto& rank : ranks) {
    said.push_back(std::async(std::launch::async, [&] {
      const std::unique_ptr<Bootstrap> member = rank.get();
      return member->all_gather(std::to_string(member->rank()), "words");
    }));
  }
  EXPECT_EQ(root.all_gather("0", "words"), (std::vector<std::string>{"0", "1", "2", "3"}));
  for (auto& one : said) EXPECT_EQ(one.get().size(), static_cast<size_t>(kSize));
}

TEST(RootSearch, AtTheDeadlineEveryAddressIsNamedWithWhatItDid) {
  const SilentPlace silent;
  const Other mute(Other::Manner::kTalks, "");
  const Other half(Other::Manner::kTalks, text_of(fresh_challenge()));
  const uint16_t gone = static_cast<uint16_t>(port_of(open_listener()));
  const UniqueId id{random_secret(), {local(gone), mute.endpoint(), half.endpoint(), silent.endpoint()}};
  EXPECT_TRUE(throws(ErrorCode::kTimeout,
                     {"rank 1 could not reach rank 0", fmt::format("127.0.0.1 port {}: Connection refused", gone),
                      fmt::format("port {} took the connection and did not answer", mute.endpoint().port),
                      fmt::format("port {} took the hello and did not answer", half.endpoint().port),
                      fmt::format("port {}: no answer", silent.endpoint().port)},
                     [&] { Bootstrap(id, 1, 2, milliseconds(2500)); }));
}

TEST(RootSearch, AnIdThatWasOldIsForgottenWhenTheNewOneComes) {
  const Other mute(Other::Manner::kTalks, "");
  auto rendezvous = std::make_unique<Rendezvous>();
  const UniqueId right{rendezvous->secret(), {local(port_of(rendezvous->listener()))}};
  std::atomic<int> num_read = 0;
  const IdSource source{[&]() -> std::optional<UniqueId> {
                          switch (num_read++) {
                            case 0: return std::nullopt;
                            case 1: return UniqueId{random_secret(), {mute.endpoint()}};
                            default: return right;
                          }
                        },
                        "nothing to read"};
  auto one = std::async(std::launch::async, [&] { return std::make_unique<Bootstrap>(source, 1, 2, kAmple); });
  const Bootstrap root(std::move(rendezvous), 2, kAmple);
  EXPECT_TRUE(equal(one.get()->secret(), right.secret));
}

// A rank 0 of before still listens where the old id leads.
TEST(RootSearch, AnOldIdMayStayForAWhileAlsoWhereEveryCallIsClosed) {
  const Other before(Other::Manner::kCloses, "");
  auto rendezvous = std::make_unique<Rendezvous>();
  const UniqueId old{random_secret(), {before.endpoint()}};
  const UniqueId right{rendezvous->secret(), {local(port_of(rendezvous->listener()))}};
  const IdSource source{[&]() -> std::optional<UniqueId> { return before.num_callers() < 25 ? old : right; }, {}};
  auto one = std::async(std::launch::async, [&] { return std::make_unique<Bootstrap>(source, 1, 2, 3 * kAmple); });
  const Bootstrap root(std::move(rendezvous), 2, 3 * kAmple);
  EXPECT_TRUE(equal(one.get()->secret(), right.secret));
}

}  // namespace
}  // namespace mk::test
