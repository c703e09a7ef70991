// SPDX-License-Identifier: MIT
// tests/support/handshaker.h — the caller's side of a handshake, step by step, so that a test can do it wrong.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "base/bytes.h"
#include "transport/handshake.h"
#include "transport/stream.h"

namespace mk::test {

inline Deadline handshake_deadline() { return Clock::now() + std::chrono::seconds(20); }

inline void say(const Fd& socket, std::span<const std::byte> bytes) {
  send_all(socket, bytes, handshake_deadline(), "a test");
}

inline Challenge hear_challenge(const Fd& socket) {
  Challenge challenge;
  receive_all(socket, writable_bytes_of(challenge), handshake_deadline(), "a challenge");
  return challenge;
}

// Hears the challenge and answers it.
inline Hello greet(const Fd& socket, const HandshakeContext& context, const Hello& as) {
  const Hello hello = prove(context, hear_challenge(socket), as);
  say(socket, bytes_of(hello));
  return hello;
}

// Its text is read, its proof is not looked at.
inline AnswerHead hear_answer(const Fd& socket, std::string* text = nullptr) {
  AnswerHead head;
  receive_all(socket, writable_bytes_of(head), handshake_deadline(), "an answer");
  std::string heard(head.bytes, '\0');
  receive_all(socket, std::as_writable_bytes(std::span(heard)), handshake_deadline(), "the text of an answer");
  if (text != nullptr) *text = heard;
  return head;
}

// The peer closes; whatever it says before is in `heard`.
inline bool is_turned_away(const Fd& socket, std::string* heard = nullptr) {
  const Deadline until = handshake_deadline();
  while (Clock::now() < until) {
    std::byte bytes[256];
    const int64_t got = receive_some(socket, bytes);
    if (got < 0) return true;
    if (got > 0 && heard != nullptr) heard->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(got));
    const int fd = socket.number();
    if (got == 0) wait_readable({&fd, 1}, until);
  }
  return false;
}

// The peer closes and says nothing before.
inline bool is_turned_away_silently(const Fd& socket) {
  std::string heard;
  return is_turned_away(socket, &heard) && heard.empty();
}

}  // namespace mk::test
