// SPDX-License-Identifier: MIT
// transport/root_search.cc — see root_search.h.
#include "transport/root_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "mkernel/error.h"
#include "transport/caller_handshake.h"
#include "transport/name_look_up.h"

namespace mk {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{20};           // between looks at the clock
constexpr milliseconds kPause{50};          // after a try that failed, and between readings of the id
constexpr milliseconds kStagger{250};       // for one address, before the next is tried as well
constexpr milliseconds kLongestDial{2000};  // then the address is called anew: the kernel's own calls get rare
constexpr milliseconds kLookUpAgain{1000};  // what a name stands for may change
constexpr size_t kMostAddresses = 64;

class RootSearch {
 public:
  RootSearch(const IdSource& source, int rank, int size, Deadline deadline)
      : source_(source), deadline_(deadline), patience_((deadline - Clock::now()) / 4) {
    hello_.rank = static_cast<uint32_t>(rank);
    hello_.size = static_cast<uint32_t>(size);
    fill_random(writable_bytes_of(hello_.number));
  }

  Root run() {
    for (;;) {
      read_id();
      for (Name& name : names_) step(name);
      for (Call& call : calls_) {
        if (step(call)) return {std::move(call.socket), id_->secret};
      }
      const bool all_closed = !calls_.empty() && std::ranges::all_of(calls_, [&](const Call& call) {
        return call.closed_for >= patience_;
      });
      if (all_closed) give_up(ErrorCode::kFabric);
      if (Clock::now() >= deadline_) give_up(ErrorCode::kTimeout);
      wait();
    }
  }

 private:
  struct Name {
    explicit Name(const Endpoint& of) : endpoint(of) {}
    Endpoint endpoint;
    std::optional<NameLookUp> look_up;
    Deadline next;  // look-up
  };

  struct Call {
    explicit Call(const SocketAddress& at) : place(at) {}
    SocketAddress place;
    enum class State { kNew, kFailed, kConnecting, kTalking } state = State::kNew;
    Fd socket;
    Deadline until;                            // it connects, or waits after a failure
    std::optional<CallerHandshake> handshake;  // the last, unless a try to connect has failed since
    std::optional<Deadline> closed_since;      // and nothing else happened between
    Clock::duration closed_for{};              // as of the last time
    std::string trouble;                       // of the last try
  };

  // Another id is another meeting: nothing of the last one stays.
  void read_id() {
    if (Clock::now() < next_read_) return;
    next_read_ = Clock::now() + kPause;
    std::optional<UniqueId> id = source_.read();
    if (!id || (id_ && equal(id->secret, id_->secret) && id->endpoints == id_->endpoints)) return;
    calls_.clear();
    names_.clear();
    for (const Endpoint& endpoint : id->endpoints) names_.emplace_back(endpoint);
    id_ = std::move(id);
  }

  void step(Name& name) {
    if (!name.look_up) {
      if (Clock::now() < name.next) return;
      name.look_up.emplace(name.endpoint);
    }
    if (!name.look_up->is_done(Clock::now())) return;
    try {
      for (const SocketAddress& place : name.look_up->take()) add(place);
    } catch (const Error& error) {
      name_trouble_ = error.what();
    }
    name.look_up.reset();
    name.next = name.endpoint.is_number() ? Deadline::max() : Clock::now() + kLookUpAgain;
  }

  void add(const SocketAddress& place) {
    const auto same = [&](const Call& call) { return to_text(call.place) == to_text(place); };
    if (calls_.size() < kMostAddresses && std::ranges::none_of(calls_, same)) calls_.emplace_back(place);
  }

  // True if it has found rank 0.
  bool step(Call& call) {
    switch (call.state) {
      case Call::State::kNew:
        if (Clock::now() < next_dial_) break;
        next_dial_ = Clock::now() + kStagger;
        dial(call);
        break;
      case Call::State::kFailed:
        if (Clock::now() >= call.until) dial(call);
        break;
      case Call::State::kConnecting: greet(call); break;
      case Call::State::kTalking: return is_root(call);
    }
    return false;
  }

  void dial(Call& call) {
    call.socket = begin_connect(call.place);
    if (!call.socket) return fail_to_connect(call, std::strerror(errno));
    call.until = Clock::now() + kLongestDial;
    call.state = Call::State::kConnecting;
    if (call.trouble.empty()) call.trouble = fmt::format("no connection to {}: no answer", to_text(call.place));
  }

  void greet(Call& call) {
    const std::optional<int> error = connect_result(call.socket);
    if (!error) {
      if (Clock::now() >= call.until) fail_to_connect(call, "no answer");
      return;
    }
    if (*error != 0) return fail_to_connect(call, std::strerror(*error));
    send_at_once(call.socket);
    if (!call.handshake)
      call.trouble.clear();  // else what was wrong with the last handshake says more than this one yet
    call.handshake.emplace(HandshakeContext{id_->secret, HandshakeContext::Purpose::kMeeting, 0}, hello_);
    call.state = Call::State::kTalking;
  }

  // Rank 0 may listen and not have come to its own join yet: only the deadline ends this wait.
  bool is_root(Call& call) {
    using State = CallerHandshake::State;
    switch (call.handshake->step(call.socket)) {
      case State::kAwaitsChallenge:
      case State::kAwaitsAnswer: break;
      case State::kHeard: return true;
      case State::kRefused: throw Error(ErrorCode::kInvalidArgument, call.handshake->refusal());
      case State::kClosed: was_closed(call); break;
      case State::kStranger: fail(call, fmt::format("{} is not rank 0", to_text(call.place))); break;
    }
    return false;
  }

  // It may be a rank 0 that is about to go, with an id about to change: so one close says little, many do.
  void was_closed(Call& call) {
    const Deadline since = call.closed_since.value_or(Clock::now());
    fail(call, fmt::format("{} closed the connection{}", to_text(call.place),
                           call.handshake->has_said_hello() ? ", as rank 0 does to another secret"
                                                            : " and did not speak as rank 0 does"));
    call.closed_since = since;
    call.closed_for = Clock::now() - since;
  }

  void fail_to_connect(Call& call, const char* why) {
    fail(call, fmt::format("no connection to {}: {}", to_text(call.place), why));
    call.handshake.reset();
  }

  void fail(Call& call, std::string trouble) {
    call.trouble = std::move(trouble);
    call.closed_since.reset();
    call.closed_for = {};
    call.socket = Fd();
    call.state = Call::State::kFailed;
    call.until = Clock::now() + kPause;
    next_dial_ = Clock::now();
  }

  void wait() const {
    std::vector<pollfd> watched;
    for (const Call& call : calls_) {
      if (call.state == Call::State::kConnecting) watched.push_back({call.socket.number(), POLLOUT, 0});
      if (call.state == Call::State::kTalking) watched.push_back({call.socket.number(), POLLIN, 0});
    }
    poll(watched.data(), watched.size(), static_cast<int>(kLook.count()));
  }

  [[noreturn]] void give_up(ErrorCode code) const {
    std::vector<std::string> troubles;
    for (const Call& call : calls_) {
      if (call.state != Call::State::kTalking || !call.trouble.empty()) {
        troubles.push_back(call.trouble);
      } else {
        troubles.push_back(fmt::format("{} took the {} and did not answer", to_text(call.place),
                                       call.handshake->has_said_hello() ? "hello" : "connection"));
      }
    }
    std::erase(troubles, "");  // those there was no time for
    if (!name_trouble_.empty()) troubles.push_back(name_trouble_);
    for (const Name& name : names_) {
      if (name.look_up) troubles.push_back(fmt::format("the name '{}' is not resolved yet", name.endpoint.host));
    }
    if (!id_) troubles = {source_.trouble};
    throw Error(code, fmt::format("rank {} could not reach rank 0: {}", hello_.rank, fmt::join(troubles, "; ")));
  }

  const IdSource& source_;
  Deadline deadline_;
  Clock::duration patience_;  // with connections that are closed
  Hello hello_;
  std::optional<UniqueId> id_;
  Deadline next_read_;
  std::deque<Name> names_;
  std::deque<Call> calls_;
  Deadline next_dial_;  // of an address that is new
  std::string name_trouble_;
};

}  // namespace

Root find_root(const IdSource& source, int rank, int size, Deadline deadline) {
  return RootSearch(source, rank, size, deadline).run();
}

}  // namespace mk
