// SPDX-License-Identifier: MIT
// transport/star.h — what the processes of a World say to each other once they have met, and who of them is gone.
//
// Rank 0 is in the middle; every other rank has one connection, to it.  A thread reads and writes all connections of
// this process, so a rank is heard while its callers compute, wait, or are in CUDA:
//   exchanges   all_gather; every rank comes to them in the same order
//   refusals    `decline` answers the exchange that the other ranks may be at, without waiting for them
//   failures    the first one that rank 0 learns of is told to all ranks, once.  A process that ends without a goodbye
//               is one; so is what a rank reports.
//   beats       every rank hears from its neighbour in the star several times within a deadline.  A rank that is
//               silent for a whole deadline has failed if others wait for it in an exchange.  Silence alone is no
//               failure; when something else failed, it tells which rank was stopped or cut off.
// No exchange waits longer than the deadline, and after a failure none waits at all.  `report` and the goodbye wait for
// less than half a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mkernel/error.h"
#include "transport/bootstrap_message.h"
#include "transport/stream.h"

namespace mk {

// Between two beats, for waits of at most `timeout`.  Who was not heard from for three of them does not answer.
std::chrono::milliseconds beat_of(std::chrono::milliseconds timeout);

// Another rank refused the call that this exchange is part of.  The exchange is over on all ranks.
class Declined : public Error {
 public:
  explicit Declined(const std::string& why) : Error(ErrorCode::kInvalidArgument, why) {}
};

class Star {
 public:
  // At rank 0 a connection by rank, none for itself; at another rank one, to rank 0.  Throws Error.
  Star(int rank, int size, std::vector<Fd> connections, std::chrono::milliseconds timeout);
  Star(const Star&) = delete;
  ~Star();  // says goodbye

  // What every rank says, by rank.  `what` names the exchange: ranks that are at different ones fail.  Throws Declined
  // if a rank declined; Error(kTimeout) or Error(kFabric) if this World cannot go on.
  std::vector<std::string> all_gather(const std::string& mine, const std::string& what);

  // This rank does not take part in the exchange that its peers come to with the same call, because of `why`.
  void decline(const std::string& why);

  // This rank refused a call, because of `why`, of which nobody knows whether the others make an exchange.  It is part
  // of what rank 0 says if the World fails.
  void mention(const std::string& why);

  // This rank has failed, which all ranks are told.  Returns what is known of the cause: "rank 2 is gone: …", or that a
  // rank does not answer, or the first failure of another rank.  Empty if this rank's own failure is all there is.
  std::string report(const std::string& why);

  // The first failure of this World that was heard of; empty if there is none.
  std::string failure() const;

  // Called at the first failure, by any thread, with the Star's lock held: it must not call back.  An empty function
  // ends it.
  void on_failure(std::function<void()> notify);

 private:
  struct Link {
    int rank = 0;
    Fd socket;
    std::string in;   // not a whole message yet
    std::string out;  // of it, the first `num_sent` bytes are sent
    size_t num_sent = 0;
    Deadline heard;  // anything, last
    bool is_open = true;
    bool has_left = false;  // said goodbye
  };
  struct Answer {
    MessageKind kind = MessageKind::kData;
    std::string what;
    std::string text;
  };
  using Lock = std::unique_lock<std::mutex>;

  void run();
  std::string why_deaf(const std::exception& error) const;
  void turn(Lock& lock);
  void say_goodbye(Lock& lock);
  void part();
  void poll_links(Lock& lock, Clock::duration longest);
  void read(Link& link);
  void take_messages(Link& link);
  void take(Link& link, const MessageHead& head, std::string text);
  void lose(Link& link, const std::string& how);
  void send(Link& link, MessageKind kind, uint32_t number, const std::string& text);
  void send_to_all(MessageKind kind, uint32_t number, const std::string& text);
  void flush(Link& link);
  void beat();
  bool is_awaited(int rank) const;
  void check_silence();
  void think_over(int reporter, const std::string& why);
  void consider();
  void conclude(std::string text, int reporter);
  std::string silent_ranks() const;
  std::string own_stall() const;
  std::string missing_ranks(int but = -1) const;
  std::string waiting_ranks() const;
  std::vector<std::string> gather(Lock& lock, const std::string& mine, const std::string& what);
  std::vector<std::string> ask_root(Lock& lock, const std::string& mine, const std::string& what);
  void check_gathered(const std::map<int, Answer>& answers, const std::string& what);
  void check_going() const;
  [[noreturn]] void end_exchanges(ErrorCode code, const std::string& why);
  void wake() const;

  const int rank_;
  const int size_;
  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds beat_;
  Fd wake_;  // an eventfd

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Link> links_;
  std::map<uint32_t, std::map<int, Answer>> answers_;  // by exchange and rank; at other ranks than 0, rank 0's
  uint32_t exchanges_ = 0;                             // begun
  uint32_t finished_ = 0;                              // the last that is over: later answers to it are dropped
  std::string at_;                                     // the exchange that rank 0 waits in; empty if in none
  std::string broken_;                                 // why no exchange can follow; empty as long as one can
  std::map<int, std::string> notes_;                   // at rank 0, by rank: the last thing it mentioned
  std::string failure_;
  int reporter_ = -1;  // whose report `failure_` is; -1 if it is more than a report
  bool has_reported_ = false;
  std::string pending_;  // a report that rank 0 thinks over: a death that caused it may be heard of next
  int pending_reporter_ = -1;
  Deadline pending_until_;
  std::function<void()> notify_;
  Deadline next_beat_;
  Clock::duration stalled_for_{};  // this process did not run, as if it was stopped; last, until then
  Deadline stalled_until_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace mk
