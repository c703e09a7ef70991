// SPDX-License-Identifier: MIT
// transport/tcp_meeting.h — how the ranks of a rail find each other over tcp.
//
// Of two ranks the lower one calls and says hello, the higher one answers hello.  Who says anything else, or nothing
// in time, is a stranger: the connection is closed and nothing else happens.  A call that fails is tried again, at
// the next place of the peer, until the deadline.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "transport/doorstep.h"
#include "transport/fabric_port.h"
#include "transport/socket.h"
#include "transport/tcp_address.h"
#include "transport/tcp_frame.h"

namespace mk {

class TcpMeeting {
 public:
  // `peers`: the addresses of the rail's ranks, by node; the own one is not looked at.
  TcpMeeting(const PortSettings& settings, Fd listener, std::vector<TcpAddress> peers);

  // The connections to each node's rank of the rail, by their numbers.  Throws Error at the deadline.
  std::vector<std::vector<Fd>> run();

 private:
  // A connection on which an answer arrives.
  struct Talk {
    Fd socket;
    Deadline until;
    std::array<std::byte, sizeof(TcpHello)> heard;
    size_t num_heard = 0;
  };
  struct Call {
    int node = 0;
    int connection = 0;
    size_t num_tries = 0;  // that failed; each was at the peer's next place
    enum class State { kIdle, kConnecting, kTalking, kMet } state = State::kIdle;
    Talk talk;
    Deadline next_try;
    std::string trouble;  // of the last try
  };
  enum class Heard { kPart, kAll, kEnd };

  int rank_on(int node) const { return settings_.world.rank_at(node, local_); }
  const SocketAddress& place_of(const Call& call) const;
  TcpHello hello_to(int node, int connection) const;
  static Heard listen_to(Talk& talk, TcpHello& hello);
  static bool say(const Fd& socket, const TcpHello& hello);

  bool all_are_met() const;
  void wait() const;
  void step_call(Call& call);
  void dial(Call& call);
  void greet(Call& call);
  void hear_answer(Call& call);
  static void hang_up(Call& call, std::string trouble);
  void admit(Fd socket, const TcpHello& hello);
  bool is_welcome(const TcpHello& hello) const;
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
