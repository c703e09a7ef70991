// SPDX-License-Identifier: MIT
// tests/transport/star_test.cc — what ranks say once they have met, and how each hears that another is gone.
#include "transport/star.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAmple{20'000};

// All ranks of a star in this process, over socket pairs.  A rank that is a `puppet` has no Star: the test holds its
// end.
class Ranks {
 public:
  explicit Ranks(int size, milliseconds timeout = kAmple, int puppet = -1) : stars(static_cast<size_t>(size)) {
    std::vector<Fd> of_root(static_cast<size_t>(size));
    for (int rank = 1; rank < size; ++rank) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
      of_root[rank] = Fd(ends[0]);
      if (rank == puppet) {
        puppet_end = Fd(ends[1]);
        continue;
      }
      std::vector<Fd> one;
      one.emplace_back(ends[1]);
      stars[rank] = std::make_unique<Star>(rank, size, std::move(one), timeout);
    }
    stars[0] = std::make_unique<Star>(0, size, std::move(of_root), timeout);
  }

  // body(star, rank) of every rank that has a Star, each in a thread of its own.
  void each(const std::function<void(Star&, int)>& body) {
    std::vector<std::future<void>> done;
    for (size_t rank = 0; rank < stars.size(); ++rank) {
      if (stars[rank] == nullptr) continue;
      done.push_back(std::async(std::launch::async, [&, rank] { body(*stars[rank], static_cast<int>(rank)); }));
    }
    for (std::future<void>& one : done) one.get();
  }

  void exchange_is_right(const std::string& what) {
    each([&](Star& star, int rank) {
      const std::vector<std::string> all = star.all_gather(what + std::to_string(rank), what);
      ASSERT_EQ(all.size(), stars.size());
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], what + std::to_string(i));
    });
  }

  void puppet_says(MessageKind kind, uint32_t number, const std::string& text) const {
    const MessageHead head{.kind = kind, .bytes = static_cast<uint32_t>(text.size()), .number = number};
    send_all(puppet_end, bytes_of(head), Clock::now() + kAmple, "a test");
    send_all(puppet_end, std::as_bytes(std::span(text)), Clock::now() + kAmple, "a test");
  }

  std::vector<std::unique_ptr<Star>> stars;  // by rank
  Fd puppet_end;
};

class StarSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, StarSizes, testing::Values(1, 2, 3, 8));

TEST_P(StarSizes, EveryRankHearsWhatEveryRankSaidInOrder) {
  Ranks ranks(GetParam());
  for (const char* what : {"first", "second", "third"}) ranks.exchange_is_right(what);
}

TEST(Star, MegabytesPassWhole) {
  Ranks ranks(3);
  const std::string much(3 << 20, 'x');
  ranks.each([&](Star& star, int rank) {
    const std::vector<std::string> all = star.all_gather(much + std::to_string(rank), "much");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all[i], much + std::to_string(i));
  });
}

TEST(Star, ARankThatEndsWithoutAGoodbyeIsNamedToAllAtOnce) {
  Ranks ranks(4, kAmple, 2);
  std::atomic<int> alarms = 0;
  for (auto& star : ranks.stars) {
    if (star != nullptr) star->on_failure([&] { ++alarms; });
  }
  ranks.puppet_end = Fd();
  ranks.each([&](Star& star, int) {
    EXPECT_TRUE(eventually([&] { return !star.failure().empty(); }));
    EXPECT_EQ(star.failure(), "rank 2 is gone: its process ended, or the connection to it broke");
    EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 2 is gone"}, [&] { star.all_gather("", "words"); }));
  });
  EXPECT_EQ(alarms, 3);
}

TEST(Star, ADeathEndsAnExchangeThatOthersWaitIn) {
  Ranks ranks(3, kAmple, 2);
  const auto cut = std::async(std::launch::async, [&] { ranks.puppet_end = Fd(); });
  ranks.each([&](Star& star, int) {
    EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 2 is gone"}, [&] { star.all_gather("", "words"); }));
  });
}

TEST(Star, TheEndOfRankZeroIsNamed) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  Fd root(ends[0]);
  std::vector<Fd> one;
  one.emplace_back(ends[1]);
  Star star(1, 2, std::move(one), kAmple);
  root = Fd();
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 0 is gone"}, [&] { star.all_gather("", "words"); }));
}

TEST(Star, AGoodbyeIsNoFailureButEndsExchanges) {
  Ranks ranks(3);
  ranks.stars[2].reset();
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 2 has left the World before words"},
                     [&] { ranks.stars[0]->all_gather("", "words"); }));
  EXPECT_EQ(ranks.stars[0]->failure(), "");
  ranks.stars[0].reset();
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 0 has left the World before words"},
                     [&] { ranks.stars[1]->all_gather("", "words"); }));
  EXPECT_EQ(ranks.stars[1]->failure(), "");
}

TEST(Star, AReportIsHeardByAllAndItsReporterIsTheCause) {
  Ranks ranks(4);
  EXPECT_EQ(ranks.stars[3]->report("no memory"), "") << "its own failure is all there is";
  for (const int rank : {0, 1, 2}) {
    EXPECT_TRUE(eventually([&] { return ranks.stars[rank]->failure() == "rank 3 failed: no memory"; }));
    EXPECT_EQ(ranks.stars[rank]->report("suffers"), "rank 3 failed: no memory");
  }
}

TEST(Star, ARankThatDoesNotAnswerIsNamedWhenAnotherReports) {
  Ranks ranks(4, milliseconds(400), 2);                          // the puppet beats no more
  EXPECT_THROW(ranks.stars[1]->all_gather("", "words"), Error);  // by its own deadline, or by the silence
  EXPECT_NE(ranks.stars[1]->report("waited in vain").find("rank 2 has not answered for"), std::string::npos);
  EXPECT_NE(ranks.stars[3]->report("waited, too").find("rank 2 has not answered for"), std::string::npos);
}

TEST(Star, ARankZeroThatDoesNotAnswerIsNamed) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const Fd root(ends[0]);
  std::vector<Fd> one;
  one.emplace_back(ends[1]);
  Star star(1, 2, std::move(one), milliseconds(400));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 0 has not answered for 4", "rank 1 waits for it at words"},
                     [&] { star.all_gather("", "words"); }));
  EXPECT_NE(star.report("waited in vain").find("rank 0 has not answered for"), std::string::npos);
}

// Who comes late to an exchange does not wait a whole deadline for a rank that has been silent for one.
TEST(Star, TheDeadlineOfASilentRankIsCountedFromItsLastWord) {
  constexpr milliseconds kTimeout{2000};
  Ranks ranks(3, kTimeout, 2);  // the puppet never beats
  const auto begin = Clock::now();
  std::this_thread::sleep_until(begin + kTimeout * 3 / 4);  // this rank computes meanwhile
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 2 has not answered for", "rank 1 is at words"},
                     [&] { ranks.stars[1]->all_gather("", "words"); }));
  EXPECT_LT(Clock::now() - begin, kTimeout * 5 / 4);
}

TEST(Star, ASilentRankThatNobodyWaitsForIsNoFailure) {
  Ranks ranks(3, milliseconds(100), 2);
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_EQ(ranks.stars[0]->failure(), "");
  EXPECT_EQ(ranks.stars[1]->failure(), "");
}

TEST(Star, ADeathComesBeforeTheReportsThatItCauses) {
  Ranks ranks(3, kAmple, 2);
  const auto report = std::async(std::launch::async, [&] { return ranks.stars[1]->report("its fabric broke"); });
  ranks.puppet_end = Fd();
  EXPECT_TRUE(eventually([&] { return !ranks.stars[1]->failure().empty(); }));
  EXPECT_NE(ranks.stars[1]->failure().find("rank 2 is gone"), std::string::npos);
}

TEST(Star, AfterAFailureNobodyWaitsAgain) {
  constexpr milliseconds kTimeout{1000};
  Ranks ranks(2, kTimeout, 1);
  EXPECT_THROW(ranks.stars[0]->all_gather("", "words"), Error);  // by its own deadline, or by the silence
  const auto begin = Clock::now();
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 1", "words"}, [&] { ranks.stars[0]->all_gather("", "more"); }));
  EXPECT_LT(Clock::now() - begin, kTimeout / 2);
}

TEST(Star, RanksAtDifferentExchangesAreNamed) {
  Ranks ranks(3);
  ranks.each([&](Star& star, int rank) {
    EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 2 is at the end where rank 0 is at words"}, [&] {
      star.all_gather("", rank == 2 ? "the end" : "words");
    })) << rank;
  });
}

class Refuser : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Refuser, testing::Values(0, 1, 2));

TEST_P(Refuser, IsNamedToThoseThatCameAndAllAreInStepAgain) {
  Ranks ranks(3);
  ranks.each([&](Star& star, int rank) {
    if (rank == GetParam()) return star.decline("m is 481");
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"refuses the call: m is 481"},
                       [&] { star.all_gather("", "the agreement"); }));
  });
  ranks.exchange_is_right("after");
}

TEST(Star, WhereAllRefuseTheyAreInStepAgain) {
  Ranks ranks(4);
  ranks.each([&](Star& star, int) { star.decline("m is 481"); });
  ranks.exchange_is_right("after");
}

TEST(Star, WhatARankMentionedIsSaidWhenTheWorldFails) {
  Ranks ranks(3);
  ranks.stars[2]->mention("m is 481");
  ranks.exchange_is_right("words");  // so rank 0 has heard it
  EXPECT_EQ(ranks.stars[1]->report("waited in vain"), "rank 2 refused a call: m is 481; rank 1 failed: waited in vain");
}

TEST(Star, NoMessageOfAWorldEndsIt) {
  Ranks ranks(2, kAmple, 1);
  send_all(ranks.puppet_end, bytes_of(MessageHead{.bytes = kMostMessageBytes + 1}), Clock::now() + kAmple, "a test");
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"rank 1", "no message of a World"},
                     [&] { ranks.stars[0]->all_gather("", "words"); }));
}

TEST(Star, LateAnswersAreNotKeptForTheNextExchange) {
  Ranks ranks(2, kAmple, 1);
  ranks.stars[0]->decline("m is 481");                                              // exchange 1 is over for rank 0
  ranks.puppet_says(MessageKind::kData, 1, joined({"the agreement", "too late"}));  // but not for rank 1
  ranks.puppet_says(MessageKind::kData, 2, joined({"after", "in time"}));
  EXPECT_EQ(ranks.stars[0]->all_gather("mine", "after"), (std::vector<std::string>{"mine", "in time"}));
}

}  // namespace
}  // namespace mk::test
