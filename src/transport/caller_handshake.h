// SPDX-License-Identifier: MIT
// transport/caller_handshake.h — the caller's side of a handshake (handshake.h) on a socket that is connected.
//
// Nothing here waits: the owner polls the socket and has the deadline.  A listener may accept long before it speaks.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "transport/handshake.h"
#include "transport/socket.h"

namespace mk {

class CallerHandshake {
 public:
  enum class State {
    kAwaitsChallenge,
    kAwaitsAnswer,  // the hello has been sent
    kHeard,         // the listener knows the secret and takes this caller
    kRefused,       // the listener knows the secret and says why it does not
    kClosed,        // the listener closed, or the connection broke
    kStranger,      // who listens does not know the secret, or speaks something else
  };

  // `as` has rank, size and number of the caller.
  CallerHandshake(const HandshakeContext& context, const Hello& as) : context_(context), hello_(as) {}

  // Reads what is there, and nothing behind the answer.
  State step(const Fd& socket);

  bool has_said_hello() const { return has_said_hello_; }
  const std::string& refusal() const { return text_; }  // to be believed if kRefused

 private:
  enum class Part { kMissing, kThere, kClosed };

  Part hear(const Fd& socket, std::span<std::byte> bytes);
  State say_hello(const Fd& socket);
  State hear_answer(const Fd& socket);

  HandshakeContext context_;
  Hello hello_;
  Challenge challenge_;
  AnswerHead answer_;
  std::string text_;
  bool has_said_hello_ = false;
  bool has_answer_head_ = false;
  size_t num_heard_ = 0;  // bytes of the part that is being heard
};

}  // namespace mk
