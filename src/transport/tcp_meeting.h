// SPDX-License-Identifier: MIT
// transport/tcp_meeting.h — how the ranks of a rail find each other over tcp.
//
// Of two ranks the lower one calls, and both prove that they know the World's secret (handshake.h).  A caller that
// does not prove it in time is a stranger: the connection is closed and nothing else happens.  A call that fails is
// tried again, at the next address of the peer, until the deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "transport/caller_handshake.h"
#include "transport/doorstep.h"
#include "transport/fabric_port.h"
#include "transport/socket.h"
#include "transport/tcp_address.h"

namespace mk {

class TcpMeeting {
 public:
  // `peers`: the addresses of the rail's ranks, by node; the own one is not looked at.
  TcpMeeting(const PortSettings& settings, Fd listener, std::vector<TcpAddress> peers);

  // The connections to each node's rank of the rail, by their numbers.  Throws Error at the deadline.
  std::vector<std::vector<Fd>> run();

 private:
  struct Call {
    int node = 0;
    int connection = 0;
    size_t num_tries = 0;  // that failed; each was at the peer's next place
    enum class State { kIdle, kConnecting, kTalking, kMet } state = State::kIdle;
    Fd socket;
    Deadline until;  // it connects
    std::optional<CallerHandshake> handshake;
    Deadline next_try;
    std::string trouble;  // of the last try
  };

  int rank_on(int node) const { return settings_.world.rank_at(node, local_); }
  const SocketAddress& place_of(const Call& call) const;

  bool all_are_met() const;
  void wait() const;
  void step_call(Call& call);
  void dial(Call& call);
  void greet(Call& call);
  void hear_answer(Call& call);
  static void hang_up(Call& call, std::string trouble);
  HandshakeContext context_of(int listener_rank) const;
  void admit(ProvenCaller caller);
  bool is_welcome(const Hello& hello) const;
  [[noreturn]] void give_up() const;

  PortSettings settings_;
  int local_;
  int own_node_;
  Deadline deadline_;
  std::chrono::milliseconds patience_;  // with one try, and with a guest that says nothing
  Fd listener_;
  std::vector<TcpAddress> peers_;
  std::vector<Call> calls_;
  Doorstep doorstep_;
  std::vector<std::vector<Fd>> met_;  // [node][connection]
};

}  // namespace mk
