// SPDX-License-Identifier: MIT
// transport/doorstep.cc — see doorstep.h.
#include "transport/doorstep.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace mk {
namespace {

// Somebody is there, but descriptors or memory are not.
bool is_lack(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

// All of it or nothing: a new connection has room for what a handshake says.
bool send_now(const Fd& socket, std::span<const std::byte> bytes) {
  return send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

Fd ProvenCaller::accept() {
  send_at_once(socket_);
  return answer(AnswerKind::kHeard, "") ? std::move(socket_) : Fd();
}

void ProvenCaller::refuse(const std::string& why) {
  answer(AnswerKind::kRefused, why.substr(0, kMostRefusalBytes));
  socket_ = Fd();
}

bool ProvenCaller::answer(AnswerKind kind, const std::string& text) const {
  AnswerHead head{.kind = kind, .bytes = static_cast<uint32_t>(text.size())};
  head.proof = listeners_proof(context_, challenge_, hello_, kind, text);
  std::vector<std::byte> said(sizeof(head) + text.size());
  std::ranges::copy(bytes_of(head), said.begin());
  std::ranges::copy(text_bytes(text), said.begin() + sizeof(head));
  return send_now(socket_, said);
}

// First those who are there are heard: who has answered does not have to make room.
void Doorstep::turn(const Admit& admit) {
  guests_.remove_if([&](Guest& guest) { return !hear(guest, admit); });
  let_in();
}

void Doorstep::let_in() {
  starved_by_ = 0;
  is_crowded_ = false;
  for (int i = 0; i < kMostAtOnce && !is_crowded_; ++i) {
    if (guests_.size() == kMostGuests && !oldest_may_go()) {
      is_crowded_ = true;
      return;
    }
    Fd socket = accept_from(listener_);
    if (!socket) {
      const int error = errno;
      if (!is_lack(error)) return;  // nobody is there
      if (guests_.empty()) {
        starved_by_ = error;
        return;
      }
      is_crowded_ = !oldest_may_go();
      if (!is_crowded_) guests_.pop_front();
      continue;
    }
    const Challenge challenge = fresh_challenge();
    if (!send_now(socket, bytes_of(challenge))) continue;
    if (guests_.size() == kMostGuests) guests_.pop_front();
    guests_.push_back({std::move(socket), Clock::now(), challenge, {}, 0});
  }
}

bool Doorstep::oldest_may_go() const { return Clock::now() >= guests_.front().came + least_stay_; }

// A listener that cannot be served stays readable: to poll it would be to spin.
void Doorstep::watch(std::vector<pollfd>& watched) const {
  if (starved_by_ == 0 && !is_crowded_) watched.push_back({listener_.number(), POLLIN, 0});
  for (const Guest& guest : guests_) watched.push_back({guest.socket.number(), POLLIN, 0});
}

std::string Doorstep::trouble() const {
  if (starved_by_ == 0) return {};
  return std::string("; it could take no connection: ") + std::strerror(starved_by_);
}

bool Doorstep::hear(Guest& guest, const Admit& admit) const {
  const int64_t got = receive_some(guest.socket, writable_bytes_of(guest.hello).subspan(guest.num_heard));
  if (got < 0) return false;
  guest.num_heard += static_cast<size_t>(got);
  if (guest.num_heard < sizeof(guest.hello)) return Clock::now() < guest.came + patience_;
  if (is_proven(context_, guest.challenge, guest.hello)) {
    admit({std::move(guest.socket), context_, guest.challenge, guest.hello});
  }
  return false;
}

}  // namespace mk
