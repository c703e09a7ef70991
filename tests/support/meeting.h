// SPDX-License-Identifier: MIT
// tests/support/meeting.h — a rank 0 that waits for the others while a test does what it does.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/handshaker.h"
#include "transport/bootstrap.h"

namespace mk::test {

constexpr std::chrono::milliseconds kAmple{20'000};

using Rank = std::future<std::unique_ptr<Bootstrap>>;

inline Rank join(const UniqueId& id, int rank, int size, std::chrono::milliseconds timeout = kAmple) {
  return std::async(std::launch::async, [=] { return std::make_unique<Bootstrap>(id, rank, size, timeout); });
}

class Meeting {
 public:
  explicit Meeting(int size, std::chrono::milliseconds timeout = kAmple, const Secret& secret = random_secret())
      : size_(size), rendezvous_(std::make_unique<Rendezvous>(0, secret)) {
    id = rendezvous_->id();
    root_ = std::async(std::launch::async,
                       [this, timeout] { return std::make_unique<Bootstrap>(std::move(rendezvous_), size_, timeout); });
  }

  Endpoint endpoint() const { return {"127.0.0.1", id.endpoints.front().port}; }
  Fd stranger() const { return connect_to(endpoint(), Clock::now() + kAmple); }
  HandshakeContext context() const { return {id.secret, HandshakeContext::Purpose::kMeeting, 0}; }

  // Of a caller that there was not before.
  static Hello hello_as(uint32_t rank, uint32_t size) {
    static uint32_t callers = 0;
    return {.rank = rank, .size = size, .number = ++callers};
  }

  // A stranger who knows the secret and has been heard, so that whoever comes later is heard later.
  Fd known_stranger(const Hello& as) const {
    Fd socket = stranger();
    greet(socket, context(), as);
    EXPECT_EQ(hear_answer(socket).kind, AnswerKind::kHeard);
    return socket;
  }

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

}  // namespace mk::test
