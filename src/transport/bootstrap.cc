// SPDX-License-Identifier: MIT
// transport/bootstrap.cc — see bootstrap.h.
#include "transport/bootstrap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "transport/bootstrap_message.h"
#include "transport/doorstep.h"

namespace mk {
namespace {

constexpr std::chrono::milliseconds kHelloTime{5000};  // for a stranger
constexpr std::chrono::milliseconds kRefusalTime{50};  // for one that will not be heard again
constexpr std::chrono::milliseconds kLinger{1500};     // for ranks that shall hear that the meeting has failed
constexpr std::chrono::milliseconds kNews{100};        // between two words of rank 0 to those that have joined
constexpr std::chrono::milliseconds kSilence{500};     // after which it does not answer
constexpr std::chrono::milliseconds kLook{50};         // between looks at the clock
constexpr int kMostRanks = 1 << 20;

void send_message(const Fd& to, MessageKind kind, uint32_t number, const std::string& text, Deadline deadline,
                  const std::string& what) {
  check_arg(text.size() <= kMostMessageBytes, "{} has {} bytes; at most {} can be exchanged", what, text.size(),
            kMostMessageBytes);
  const MessageHead head{.kind = kind, .bytes = static_cast<uint32_t>(text.size()), .number = number};
  send_all(to, bytes_of(head), deadline, what);
  send_all(to, std::as_bytes(std::span(text)), deadline, what);
}

// To one that may not listen: it must not cost this rank anything.
void tell(const Fd& whom, MessageKind kind, const std::string& text) {
  try {
    send_message(whom, kind, 0, text, Clock::now() + kRefusalTime, "a word to a rank that has joined");
  } catch (const Error&) {
  }
}

// Its end of the connection is closed, or the connection broke.
bool is_gone(const Fd& socket) {
  std::byte one;
  const ssize_t got = recv(socket.number(), &one, sizeof(one), MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

// Those who have joined, as rank 0 sees them.
class Guests {
 public:
  explicit Guests(std::vector<Fd>& members) : members_(members), callers_(members.size()) {}

  void admit(ProvenCaller caller) {
    const Hello& hello = caller.hello();
    if (const std::string why = mismatch_of(hello); !why.empty()) {
      if (mismatch_.empty()) mismatch_ = why;
      const int rank = static_cast<int>(hello.rank);
      if (std::ranges::find(mismatched_, rank) == mismatched_.end()) mismatched_.push_back(rank);
      std::ranges::sort(mismatched_);
      return caller.refuse(why);
    }
    if (members_[hello.rank] && !is_gone(members_[hello.rank])) {
      // The same caller, at another of this rank's addresses, has its answer already.
      if (callers_[hello.rank] == hello.number) return;
      return caller.refuse(fmt::format("rank {} has joined already", hello.rank));
    }
    Fd member = caller.accept();
    if (!member) return;
    members_[hello.rank] = std::move(member);
    callers_[hello.rank] = hello.number;
  }

  // Whether a rank that knows the secret can never join, and why: the ranks were started wrong, and no wait helps.
  bool is_mismatched() const { return !mismatch_.empty(); }
  const std::string& mismatch() const { return mismatch_; }
  const std::vector<int>& mismatched_ranks() const { return mismatched_; }

  void forget_gone() {
    for (Fd& member : members_) {
      if (member && is_gone(member)) member = Fd();
    }
  }

 private:
  std::string mismatch_of(const Hello& hello) const {
    if (hello.size != members_.size()) {
      return fmt::format("rank {} has a world of {} ranks (WORLD_SIZE?); rank 0 has one of {}", hello.rank, hello.size,
                         members_.size());
    }
    if (hello.rank == 0 || hello.rank >= members_.size()) {
      return fmt::format("rank {} (RANK?) cannot join rank 0 in a world of {}; it must be 1 to {}", hello.rank,
                         members_.size(), members_.size() - 1);
    }
    return {};
  }

  std::vector<Fd>& members_;
  std::vector<uint32_t> callers_;
  std::string mismatch_;
  std::vector<int> mismatched_;
};

std::vector<int> missing_from(const std::vector<Fd>& members) {
  std::vector<int> missing;
  for (size_t rank = 1; rank < members.size(); ++rank) {
    if (!members[rank]) missing.push_back(static_cast<int>(rank));
  }
  return missing;
}

void check_sizes(int rank, int size, std::chrono::milliseconds timeout) {
  check_arg(size >= 1 && size <= kMostRanks, "size is {}; it must be 1 to {}", size, kMostRanks);
  check_arg(rank >= 0 && rank < size, "rank is {}; it must be 0 to {}", rank, size - 1);
  check_arg(timeout.count() >= 1, "timeout is {} ms; it must be at least 1", timeout.count());
}

// "1, 2, 3 and 900 more".
std::string some_of(const std::vector<int>& ranks) {
  constexpr size_t kMostNamed = 16;
  const size_t named = std::min(ranks.size(), kMostNamed);
  const std::string text = fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<long>(named), ", "));
  return ranks.size() == named ? text : fmt::format("{} and {} more", text, ranks.size() - named);
}

// What rank 0 says, again and again, to those that have joined.
void tell_missing(const std::vector<Fd>& members, const std::vector<int>& missing) {
  const std::string text = some_of(missing);
  for (const Fd& member : members) {
    if (member) tell(member, MessageKind::kMissing, text);
  }
}

// A rank that has joined, until rank 0 says that all have, or why they cannot.
class Welcome {
 public:
  Welcome(const Fd& root, int rank, int size, std::chrono::milliseconds timeout)
      : root_(root), rank_(rank), size_(size), timeout_(timeout) {}

  void await(Deadline until) {
    while (!heard(until)) {
    }
  }

 private:
  bool heard(Deadline until) {
    MessageHead head;
    receive(writable_bytes_of(head), until);
    if (head.magic != kMessageMagic || head.bytes > kMostRefusalBytes) {
      throw Error(ErrorCode::kFabric, "rank 0 sent something that is no message of a World");
    }
    std::string text(head.bytes, '\0');
    receive(std::as_writable_bytes(std::span(text)), until);
    if (head.kind == MessageKind::kData) return true;
    if (head.kind != MessageKind::kMissing) throw Error(ErrorCode::kFabric, text);
    missing_ = text;
    last_ = Clock::now();
    return false;
  }

  void receive(std::span<std::byte> bytes, Deadline until) {
    try {
      receive_all(root_, bytes, until, "all ranks to join");
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kTimeout) throw Error(ErrorCode::kTimeout, trouble());
      const std::string awaited = missing_.empty() ? "all ranks" : "ranks " + missing_;
      throw Error(error.code(), fmt::format("rank 0 left while rank {} waited for {} to join", rank_, awaited));
    }
  }

  std::string trouble() const {
    const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_);
    if (missing_.empty() || silence >= kSilence) {
      return fmt::format("rank 0 has not answered for {} ms; rank {} waited {} ms for all {} ranks to join",
                         silence.count(), rank_, timeout_.count(), size_);
    }
    return fmt::format("rank {} waited {} ms for ranks {} of {} to join", rank_, timeout_.count(), missing_, size_);
  }

  const Fd& root_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::string missing_;
  Deadline last_ = Clock::now();  // when rank 0 was heard
};

void welcome(const std::vector<Fd>& members, Deadline until) {
  for (size_t rank = 1; rank < members.size(); ++rank) {
    send_message(members[rank], MessageKind::kData, 0, "", until, fmt::format("rank {} to be welcomed", rank));
  }
}

void refuse_all(const std::vector<Fd>& members, const std::string& why) {
  for (const Fd& member : members) {
    if (member) tell(member, MessageKind::kRefused, why);
  }
}

}  // namespace

UniqueId Rendezvous::id() const {
  UniqueId id{secret_, {}};
  for (const SocketAddress& place : local_places("", port_of(listener_))) {
    id.endpoints.push_back({place.host(), static_cast<uint16_t>(place.port())});
  }
  return id;
}

Bootstrap::Bootstrap(std::unique_ptr<Rendezvous> rendezvous, int size, std::chrono::milliseconds timeout)
    : rank_(0), size_(size), secret_(rendezvous->secret()), timeout_(timeout) {
  check_sizes(0, size, timeout);
  star_ = std::make_unique<Star>(0, size, gather_members(*rendezvous), timeout);
}

Bootstrap::Bootstrap(const UniqueId& id, int rank, int size, std::chrono::milliseconds timeout)
    : Bootstrap(IdSource{[&] { return id; }, {}}, rank, size, timeout) {}

Bootstrap::Bootstrap(const IdSource& source, int rank, int size, std::chrono::milliseconds timeout)
    : rank_(rank), size_(size), timeout_(timeout) {
  check_sizes(rank, size, timeout);
  check_arg(rank > 0, "rank is 0; rank 0 joins with its Rendezvous");
  const Deadline until = Clock::now() + timeout;
  Root root = find_root(source, rank, size, until);
  secret_ = root.secret;
  Welcome(root.socket, rank, size, timeout).await(until);
  std::vector<Fd> connections;
  connections.push_back(std::move(root.socket));
  star_ = std::make_unique<Star>(rank, size, std::move(connections), timeout);
}

// Rank 0: until every rank has joined.
std::vector<Fd> Bootstrap::gather_members(const Rendezvous& rendezvous) const {
  const Deadline until = Clock::now() + timeout_;
  std::vector<Fd> members(static_cast<size_t>(size_));
  Guests guests(members);
  Doorstep doorstep(rendezvous.listener(), {rendezvous.secret(), HandshakeContext::Purpose::kMeeting, 0}, kHelloTime);
  const auto fail = [&](ErrorCode code, const std::string& why) {
    refuse_all(members, why);
    throw Error(code, why);
  };
  std::vector<int> missing = missing_from(members);
  std::vector<int> told;
  Deadline next_news;
  Deadline end = until;
  while (!missing.empty()) {
    if (missing != told || Clock::now() >= next_news) {
      tell_missing(members, missing);
      told = missing;
      next_news = Clock::now() + kNews;
    }
    if (guests.is_mismatched() && (Clock::now() >= end || missing == guests.mismatched_ranks())) {
      fail(ErrorCode::kFabric, guests.mismatch());
    }
    if (Clock::now() >= until) {
      fail(ErrorCode::kTimeout, fmt::format("rank 0 waited {} ms for ranks {} of {} to join{}", timeout_.count(),
                                            some_of(missing), size_, doorstep.trouble()));
    }
    std::vector<pollfd> watched;
    doorstep.watch(watched);
    poll(watched.data(), watched.size(), static_cast<int>(kLook.count()));
    doorstep.turn([&](ProvenCaller caller) { guests.admit(std::move(caller)); });
    if (guests.is_mismatched() && end == until) end = std::min(until, Clock::now() + kLinger);
    missing = missing_from(members);
    if (!missing.empty()) continue;
    guests.forget_gone();  // they may come again
    missing = missing_from(members);
  }
  try {
    welcome(members, until);
  } catch (const Error& error) {
    refuse_all(members, error.what());
    throw;
  }
  return members;
}

}  // namespace mk
