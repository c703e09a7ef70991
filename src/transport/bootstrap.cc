// SPDX-License-Identifier: MIT
// transport/bootstrap.cc — see bootstrap.h.
#include "transport/bootstrap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "base/check.h"
#include "transport/bootstrap_message.h"

namespace mk {
namespace {

constexpr size_t kMostStrangers = 256;                 // whose hello is not complete
constexpr std::chrono::milliseconds kHelloTime{5000};  // for one
constexpr std::chrono::milliseconds kRetryPause{50};   // rank 0 may not listen yet
constexpr int kMostRanks = 1 << 20;

// Somebody who has connected and not yet said all of its hello.
struct Stranger {
  Fd socket;
  Deadline until;
  Hello hello;
  size_t got = 0;

  bool has_said() const { return got == sizeof(Hello); }
};

void send_message(const Fd& to, MessageKind kind, uint32_t number, const std::string& text, Deadline deadline,
                  const std::string& what) {
  check_arg(text.size() <= kMostMessageBytes, "{} has {} bytes; at most {} can be exchanged", what, text.size(),
            kMostMessageBytes);
  const MessageHead head{.kind = kind, .bytes = static_cast<uint32_t>(text.size()), .number = number};
  send_all(to, bytes_of(head), deadline, what);
  send_all(to, std::as_bytes(std::span(text)), deadline, what);
}

// To one that will not be heard again: it must not cost this rank anything.
void refuse(const Fd& whom, const std::string& why) {
  try {
    send_message(whom, MessageKind::kRefused, 0, why, Clock::now() + kRetryPause, "a refusal");
  } catch (const Error&) {
  }
}

// Empty if it may join.
std::string why_refused(const Hello& hello, const std::vector<Fd>& members) {
  if (hello.size != members.size()) {
    return fmt::format("rank {} has a world of {} ranks; rank 0 has one of {}", hello.rank, hello.size, members.size());
  }
  if (hello.rank == 0 || hello.rank >= members.size()) {
    return fmt::format("rank {} cannot join; it must be 1 to {}", hello.rank, members.size() - 1);
  }
  if (members[hello.rank]) return fmt::format("rank {} has joined already", hello.rank);
  return {};
}

// Reads on; false if this one is done with, as a member or for good.
bool hear(Stranger& stranger, const Secret& secret, std::vector<Fd>& members) {
  const int64_t got = receive_some(stranger.socket, writable_bytes_of(stranger.hello).subspan(stranger.got));
  if (got < 0 || Clock::now() >= stranger.until) return false;
  stranger.got += static_cast<size_t>(got);
  if (!stranger.has_said()) return true;
  // Who does not know the secret learns nothing.
  if (stranger.hello.magic != kBootstrapMagic || !equal(stranger.hello.secret, secret)) return false;
  if (const std::string why = why_refused(stranger.hello, members); !why.empty()) {
    refuse(stranger.socket, why);
    return false;
  }
  members[stranger.hello.rank] = std::move(stranger.socket);
  return false;
}

std::vector<int> missing_from(const std::vector<Fd>& members) {
  std::vector<int> missing;
  for (size_t rank = 1; rank < members.size(); ++rank) {
    if (!members[rank]) missing.push_back(static_cast<int>(rank));
  }
  return missing;
}

// Tries every address until one answers.  `secret` is of the id that named it.
Fd reach(const IdSource& source, int rank, Deadline deadline, Secret& secret) {
  for (;;) {
    std::string why = source.trouble;
    const std::optional<UniqueId> id = source.read();
    for (const Endpoint& endpoint : id ? id->endpoints : std::vector<Endpoint>{}) {
      try {
        secret = id->secret;
        return connect_to(endpoint, std::min(deadline, Clock::now() + kHelloTime));
      } catch (const Error& error) {
        why = error.what();
      }
    }
    if (Clock::now() + kRetryPause >= deadline) {
      throw Error(ErrorCode::kTimeout, fmt::format("rank {} could not reach rank 0: {}", rank, why));
    }
    std::this_thread::sleep_for(kRetryPause);
  }
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
  root_ = reach(source, rank, until, secret_);
  const Hello hello{.rank = static_cast<uint32_t>(rank), .size = static_cast<uint32_t>(size), .secret = secret_};
  const std::string what =
      fmt::format("all {} ranks to join (rank {} has; another secret is turned away without a word)", size, rank);
  send_all(root_, bytes_of(hello), until, what);
  receive(root_, 0, until, what);
}

// Rank 0: until every rank has joined.
void Bootstrap::gather_members(const Rendezvous& rendezvous) {
  const Deadline until = deadline();
  std::vector<Stranger> strangers;
  std::vector<int> missing = missing_from(members_);
  while (!missing.empty()) {
    if (Clock::now() >= until) {
      const std::string why = fmt::format("rank 0 waited {} ms for ranks {} of {} to join", timeout_.count(),
                                          fmt::join(missing, ", "), size_);
      for (const Fd& member : members_) {
        if (member) refuse(member, why);
      }
      throw Error(ErrorCode::kTimeout, why);
    }
    std::vector<int> fds{rendezvous.listener().number()};
    for (const Stranger& stranger : strangers) fds.push_back(stranger.socket.number());
    wait_readable(fds, std::min(until, Clock::now() + kHelloTime));
    for (Fd socket; (socket = accept_from(rendezvous.listener()));) {
      send_at_once(socket);
      if (strangers.size() == kMostStrangers) strangers.erase(strangers.begin());
      strangers.push_back({std::move(socket), Clock::now() + kHelloTime, {}});
    }
    std::erase_if(strangers, [&](Stranger& one) { return !hear(one, rendezvous.secret(), members_); });
    missing = missing_from(members_);
  }
  for (int rank = 1; rank < size_; ++rank) {
    send_message(members_[rank], MessageKind::kData, 0, "", until, fmt::format("rank {} to be welcomed", rank));
  }
}

std::string Bootstrap::receive(const Fd& from, int rank, Deadline until, const std::string& what) const {
  MessageHead head;
  receive_all(from, writable_bytes_of(head), until, fmt::format("{}, from rank {}", what, rank));
  if (head.magic != kBootstrapMagic || head.bytes > kMostMessageBytes) {
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
