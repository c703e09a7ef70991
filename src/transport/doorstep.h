// SPDX-License-Identifier: MIT
// transport/doorstep.h — the listener's side of handshakes (handshake.h): callers that have not proved the secret yet.
//
// A flood of strangers costs a fixed number of descriptors, and a turn takes a bounded time, whatever they do.  A
// caller that is let in gets a challenge at once and has `least_stay` to answer it, however many others call; those
// wait in the listener's queue.  After that time the oldest caller may have to make room.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "transport/handshake.h"
#include "transport/stream.h"

namespace mk {

// A caller that has proved that it knows the secret.  It waits for an answer.
class ProvenCaller {
 public:
  ProvenCaller(Fd socket, const HandshakeContext& context, const Challenge& challenge, const Hello& hello)
      : socket_(std::move(socket)), context_(context), challenge_(challenge), hello_(hello) {}

  const Hello& hello() const { return hello_; }

  // The connection, of which nothing behind the hello has been read; no Fd if the caller is gone.
  Fd accept();
  // Ends the connection; waits for nothing.
  void refuse(const std::string& why);

 private:
  bool answer(AnswerKind kind, const std::string& text) const;

  Fd socket_;
  const HandshakeContext& context_;  // the doorstep's
  Challenge challenge_;
  Hello hello_;
};

class Doorstep {
 public:
  static constexpr size_t kMostGuests = 256;                  // at once
  static constexpr int kMostAtOnce = 64;                      // let in with one turn
  static constexpr std::chrono::milliseconds kLeastStay{20};  // far more than an answer takes; short for who waits

  // A hello comes within `patience`; only after `least_stay` does a guest make room for another.  The listener
  // outlives this.
  Doorstep(const Fd& listener, const HandshakeContext& context, std::chrono::milliseconds patience,
           std::chrono::milliseconds least_stay = kLeastStay)
      : listener_(listener), context_(context), patience_(patience), least_stay_(least_stay) {}

  // Called for each guest whose proof is right.  A guest whose proof is wrong is closed without a word.
  using Admit = std::function<void(ProvenCaller caller)>;

  // Hears all, lets some in and challenges them, waits for nobody.
  void turn(const Admit& admit);

  // What to poll before the next turn, which must not be later than a fraction of a second.
  void watch(std::vector<pollfd>& watched) const;

  size_t num_guests() const { return guests_.size(); }

  // Empty, or what the last turn lacked to let anybody in, as the end of a sentence.
  std::string trouble() const;

 private:
  struct Guest {
    Fd socket;
    Deadline came;
    Challenge challenge;
    Hello hello;
    size_t num_heard = 0;
  };

  void let_in();
  bool oldest_may_go() const;
  bool hear(Guest& guest, const Admit& admit) const;  // false: it is no guest any more

  const Fd& listener_;
  HandshakeContext context_;
  std::chrono::milliseconds patience_;
  std::chrono::milliseconds least_stay_;
  std::list<Guest> guests_;  // the oldest first
  bool is_crowded_ = false;  // nobody can come in until the oldest may go
  int starved_by_ = 0;       // the errno of a lack that no guest can make up for; 0 if there is none
};

}  // namespace mk
