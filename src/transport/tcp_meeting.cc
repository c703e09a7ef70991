// SPDX-License-Identifier: MIT
// transport/tcp_meeting.cc — see tcp_meeting.h.
#include "transport/tcp_meeting.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "mkernel/error.h"

namespace mk {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{20};    // between looks at the clock
constexpr milliseconds kBreath{10};  // after a try that failed
constexpr milliseconds kLongTry{2000};

}  // namespace

TcpMeeting::TcpMeeting(const PortSettings& settings, Fd listener, std::vector<TcpAddress> peers)
    : settings_(settings),
      local_(settings.world.local_of(settings.rank)),
      own_node_(settings.world.node_of(settings.rank)),
      deadline_(Clock::now() + settings.deadline),
      patience_(std::clamp(settings.deadline / 4, milliseconds{1}, kLongTry)),
      listener_(std::move(listener)),
      peers_(std::move(peers)),
      doorstep_(listener_, context_of(settings.rank), patience_),
      met_(settings.world.nodes) {
  for (int node = 0; node < settings.world.nodes; ++node) {
    if (node == own_node_) continue;
    met_[node].resize(settings.tcp.connections);
    for (int i = 0; i < settings.tcp.connections && node > own_node_; ++i) {
      Call& call = calls_.emplace_back();
      call.node = node;
      call.connection = i;
    }
  }
}

std::vector<std::vector<Fd>> TcpMeeting::run() {
  for (;;) {
    for (Call& call : calls_) step_call(call);
    doorstep_.turn([&](ProvenCaller caller) { admit(std::move(caller)); });
    if (all_are_met()) break;
    if (Clock::now() >= deadline_) give_up();
    wait();
  }
  for (const auto& of_node : met_) {
    for (const Fd& socket : of_node) prepare_connected(socket, settings_.deadline);
  }
  return std::move(met_);
}

bool TcpMeeting::all_are_met() const {
  return std::ranges::all_of(met_, [](const auto& of_node) {
    return std::ranges::all_of(of_node, [](const Fd& socket) { return static_cast<bool>(socket); });
  });
}

// Until something can be read or a call is answered; not long, as there are times to look at.
void TcpMeeting::wait() const {
  std::vector<pollfd> watched;
  doorstep_.watch(watched);
  for (const Call& call : calls_) {
    if (call.state == Call::State::kConnecting) watched.push_back({call.socket.number(), POLLOUT, 0});
    if (call.state == Call::State::kTalking) watched.push_back({call.socket.number(), POLLIN, 0});
  }
  poll(watched.data(), watched.size(), static_cast<int>(kLook.count()));
}

HandshakeContext TcpMeeting::context_of(int listener_rank) const {
  return {settings_.secret, HandshakeContext::Purpose::kTcpFabric, static_cast<uint32_t>(listener_rank)};
}

const SocketAddress& TcpMeeting::place_of(const Call& call) const {
  const std::vector<SocketAddress>& places = peers_[call.node].places;
  return places[call.num_tries % places.size()];
}

void TcpMeeting::step_call(Call& call) {
  switch (call.state) {
    case Call::State::kIdle:
      if (Clock::now() >= call.next_try) dial(call);
      break;
    case Call::State::kConnecting: greet(call); break;
    case Call::State::kTalking: hear_answer(call); break;
    case Call::State::kMet: break;
  }
}

void TcpMeeting::dial(Call& call) {
  const SocketAddress& place = place_of(call);
  call.socket = begin_connect(place, settings_.tcp.buffer_bytes);
  call.until = Clock::now() + patience_;
  if (!call.socket) return hang_up(call, fmt::format("{}: {}", to_text(place), std::strerror(errno)));
  call.state = Call::State::kConnecting;
}

void TcpMeeting::greet(Call& call) {
  const std::string place = to_text(place_of(call));
  const std::optional<int> error = connect_result(call.socket);
  if (!error) {
    if (Clock::now() >= call.until) hang_up(call, place + ": no answer");
    return;
  }
  if (*error != 0) return hang_up(call, fmt::format("{}: {}", place, std::strerror(*error)));
  const Hello as{.rank = static_cast<uint32_t>(settings_.rank),
                 .size = static_cast<uint32_t>(settings_.world.size()),
                 .number = static_cast<uint32_t>(call.connection)};
  call.handshake.emplace(context_of(rank_on(call.node)), as);
  if (call.trouble.empty()) call.trouble = place + ": it did not answer";  // what went wrong before says more
  call.state = Call::State::kTalking;
}

// The peer may not have come to its own `connect` yet: only the deadline ends this wait.
void TcpMeeting::hear_answer(Call& call) {
  using State = CallerHandshake::State;
  const State state = call.handshake->step(call.socket);
  if (state == State::kAwaitsChallenge || state == State::kAwaitsAnswer) return;
  if (state != State::kHeard) {
    return hang_up(call, to_text(place_of(call)) + ": it refused the hello, or is another rank");
  }
  met_[call.node][call.connection] = std::move(call.socket);
  call.state = Call::State::kMet;
}

void TcpMeeting::hang_up(Call& call, std::string trouble) {
  call.trouble = std::move(trouble);
  call.socket = Fd();
  call.state = Call::State::kIdle;
  call.next_try = Clock::now() + kBreath;
  ++call.num_tries;
}

void TcpMeeting::admit(ProvenCaller caller) {
  const Hello& hello = caller.hello();
  if (!is_welcome(hello)) return;
  // A caller that tries again gave the last one up.
  if (Fd socket = caller.accept()) {
    met_[settings_.world.node_of(static_cast<int>(hello.rank))][hello.number] = std::move(socket);
  }
}

// That the caller means this rank is part of its proof.
bool TcpMeeting::is_welcome(const Hello& hello) const {
  const WorldShape& world = settings_.world;
  return hello.size == static_cast<uint32_t>(world.size()) && hello.rank < static_cast<uint32_t>(settings_.rank) &&
         hello.number < static_cast<uint32_t>(settings_.tcp.connections) &&
         world.local_of(static_cast<int>(hello.rank)) == local_ &&
         world.node_of(static_cast<int>(hello.rank)) != own_node_;
}

void TcpMeeting::give_up() const {
  for (int node = 0; node < settings_.world.nodes; ++node) {
    const auto there = std::ranges::count_if(met_[node], [](const Fd& socket) { return static_cast<bool>(socket); });
    if (there == static_cast<ptrdiff_t>(met_[node].size())) continue;
    const auto call = std::ranges::find_if(
        calls_, [&](const Call& one) { return one.node == node && one.state != Call::State::kMet; });
    throw Error(ErrorCode::kTimeout,
                fmt::format("rank {} waited {} ms for rank {} over tcp: {} of {} connections are there{}",
                            settings_.rank, settings_.deadline.count(), rank_on(node), there, met_[node].size(),
                            call == calls_.end() ? "; that rank did not call" + doorstep_.trouble()
                                                 : "; last, " + call->trouble));
  }
  throw Error(ErrorCode::kTimeout, "the ranks of a rail did not meet over tcp");
}

}  // namespace mk
