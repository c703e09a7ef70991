// SPDX-License-Identifier: MIT
// transport/bootstrap.cc — see bootstrap.h.
#include "transport/bootstrap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "transport/bootstrap_message.h"
#include "transport/doorstep.h"

namespace mk {
namespace {

constexpr std::chrono::milliseconds kHelloTime{5000};  // for a stranger
constexpr std::chrono::milliseconds kRefusalTime{50};  // for one that will not be heard again
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

// To one that will not be heard again: it must not cost this rank anything.
void refuse(const Fd& whom, uint32_t number, const std::string& why) {
  try {
    send_message(whom, MessageKind::kRefused, number, why, Clock::now() + kRefusalTime, "a refusal");
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
      mismatch_ = why;
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

  // Empty, or why a rank that knows the secret can never join: the ranks were started wrong, and no wait helps.
  const std::string& mismatch() const { return mismatch_; }

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

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    const uint32_t bytes = static_cast<uint32_t>(part.size());
    text.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    text += part;
  }
  return text;
}

// Nothing if the text is not `count` parts.
std::optional<std::vector<std::string>> parts_of(const std::string& text, size_t count) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (parts.size() < count) {
    uint32_t bytes = 0;
    if (text.size() - at < sizeof(bytes)) return std::nullopt;
    std::memcpy(&bytes, text.data() + at, sizeof(bytes));
    at += sizeof(bytes);
    if (text.size() - at < bytes) return std::nullopt;
    parts.push_back(text.substr(at, bytes));
    at += bytes;
  }
  if (at != text.size()) return std::nullopt;
  return parts;
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
  members_.resize(size);
  gather_members(*rendezvous);
}

Bootstrap::Bootstrap(const UniqueId& id, int rank, int size, std::chrono::milliseconds timeout)
    : Bootstrap(IdSource{[&] { return id; }, {}}, rank, size, timeout) {}

Bootstrap::Bootstrap(const IdSource& source, int rank, int size, std::chrono::milliseconds timeout)
    : rank_(rank), size_(size), timeout_(timeout) {
  check_sizes(rank, size, timeout);
  check_arg(rank > 0, "rank is 0; rank 0 joins with its Rendezvous");
  const Deadline until = deadline();
  Root root = find_root(source, rank, size, until);
  root_ = std::move(root.socket);
  secret_ = root.secret;
  const std::string what = fmt::format("all {} ranks to join (rank {} has)", size, rank);
  receive(root_, 0, until, what);
}

// Rank 0: until every rank has joined.
void Bootstrap::gather_members(const Rendezvous& rendezvous) {
  const Deadline until = deadline();
  Guests guests(members_);
  Doorstep doorstep(rendezvous.listener(), {rendezvous.secret(), HandshakeContext::Purpose::kMeeting, 0}, kHelloTime);
  const auto fail = [&](ErrorCode code, const std::string& why) {
    for (const Fd& member : members_) {
      if (member) refuse(member, exchanges_, why);
    }
    throw Error(code, why);
  };
  std::vector<int> missing = missing_from(members_);
  while (!missing.empty()) {
    if (Clock::now() >= until) {
      fail(ErrorCode::kTimeout, fmt::format("rank 0 waited {} ms for ranks {} of {} to join{}", timeout_.count(),
                                            fmt::join(missing, ", "), size_, doorstep.trouble()));
    }
    std::vector<pollfd> watched;
    doorstep.watch(watched);
    poll(watched.data(), watched.size(), static_cast<int>(kLook.count()));
    doorstep.turn([&](ProvenCaller caller) { guests.admit(std::move(caller)); });
    if (!guests.mismatch().empty()) fail(ErrorCode::kFabric, guests.mismatch());
    missing = missing_from(members_);
    if (!missing.empty()) continue;
    guests.forget_gone();  // they may come again
    missing = missing_from(members_);
  }
  for (int rank = 1; rank < size_; ++rank) {
    send_message(members_[rank], MessageKind::kData, 0, "", until, fmt::format("rank {} to be welcomed", rank));
  }
}

std::string Bootstrap::receive(const Fd& from, int rank, Deadline until, const std::string& what) const {
  MessageHead head;
  receive_all(from, writable_bytes_of(head), until, fmt::format("{}, from rank {}", what, rank));
  if (head.magic != kMessageMagic || head.bytes > kMostMessageBytes) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} sent something that is no message of a World", rank));
  }
  std::string text(head.bytes, '\0');
  receive_all(from, std::as_writable_bytes(std::span(text)), until, fmt::format("{}, from rank {}", what, rank));
  if (head.kind == MessageKind::kRefused) throw Error(ErrorCode::kFabric, text);
  if (head.kind != MessageKind::kData || head.number != exchanges_) {
    throw Error(ErrorCode::kFabric, fmt::format("rank {} is at exchange {} where rank {} is at {} ({})", rank,
                                                head.number, rank_, exchanges_, what));
  }
  return text;
}

std::vector<std::string> Bootstrap::all_gather(const std::string& mine, const std::string& what) {
  ++exchanges_;
  const Deadline until = deadline();
  if (rank_ != 0) {
    send_message(root_, MessageKind::kData, exchanges_, mine, until, what);
    std::optional<std::vector<std::string>> all = parts_of(receive(root_, 0, until, what), size_);
    if (!all) throw Error(ErrorCode::kFabric, fmt::format("rank 0 sent {} that is not of {} ranks", what, size_));
    return *std::move(all);
  }
  std::vector<std::string> all{mine};
  for (int rank = 1; rank < size_; ++rank) all.push_back(receive(members_[rank], rank, until, what));
  const std::string text = joined(all);
  for (int rank = 1; rank < size_; ++rank) {
    send_message(members_[rank], MessageKind::kData, exchanges_, text, until, what);
  }
  return all;
}

}  // namespace mk
