// SPDX-License-Identifier: MIT
// transport/caller_handshake.cc — see caller_handshake.h.
#include "transport/caller_handshake.h"

#include "base/bytes.h"
#include "transport/stream.h"

namespace mk {

CallerHandshake::State CallerHandshake::step(const Fd& socket) {
  if (has_said_hello_) return hear_answer(socket);
  switch (hear(socket, writable_bytes_of(challenge_))) {
    case Part::kMissing: return State::kAwaitsChallenge;
    case Part::kClosed: return State::kClosed;
    case Part::kThere: break;
  }
  if (challenge_.magic != kChallengeMagic) return State::kStranger;
  return say_hello(socket);
}

// A new connection has room for a hello; one that has not is as good as broken.
CallerHandshake::State CallerHandshake::say_hello(const Fd& socket) {
  hello_ = prove(context_, challenge_, hello_);
  if (send(socket.number(), &hello_, sizeof(hello_), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(hello_))) {
    return State::kClosed;
  }
  has_said_hello_ = true;
  return State::kAwaitsAnswer;
}

CallerHandshake::State CallerHandshake::hear_answer(const Fd& socket) {
  if (!has_answer_head_) {
    const Part head = hear(socket, writable_bytes_of(answer_));
    if (head != Part::kThere) return head == Part::kClosed ? State::kClosed : State::kAwaitsAnswer;
    if (answer_.magic != kAnswerMagic || answer_.bytes > kMostRefusalBytes) return State::kStranger;
    has_answer_head_ = true;
    text_.resize(answer_.bytes);
  }
  const Part text = hear(socket, std::as_writable_bytes(std::span(text_)));
  if (text != Part::kThere) return text == Part::kClosed ? State::kClosed : State::kAwaitsAnswer;
  if (!is_proven(context_, challenge_, hello_, answer_, text_)) return State::kStranger;
  switch (answer_.kind) {
    case AnswerKind::kHeard: return State::kHeard;
    case AnswerKind::kRefused: return State::kRefused;
  }
  return State::kStranger;
}

CallerHandshake::Part CallerHandshake::hear(const Fd& socket, std::span<std::byte> bytes) {
  if (num_heard_ < bytes.size()) {
    const int64_t got = receive_some(socket, bytes.subspan(num_heard_));
    if (got < 0) return Part::kClosed;
    num_heard_ += static_cast<size_t>(got);
    if (num_heard_ < bytes.size()) return Part::kMissing;
  }
  num_heard_ = 0;
  return Part::kThere;
}

}  // namespace mk
