// SPDX-License-Identifier: MIT
// transport/doorstep.cc — see doorstep.h.
#include "transport/doorstep.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace mk {
namespace {

// Somebody is there, but descriptors or memory are not.
bool is_lack(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

void Doorstep::turn(const Admit& admit) {
  starved_by_ = 0;
  for (int i = 0; i < kMostAtOnce; ++i) {
    Fd socket = accept_from(listener_);
    if (!socket) {
      const int error = errno;
      if (!is_lack(error)) break;  // nobody is there
      if (guests_.empty()) {
        starved_by_ = error;
        break;
      }
      guests_.pop_front();
      continue;
    }
    Guest guest{std::move(socket), Clock::now() + patience_, std::vector<std::byte>(hello_bytes_)};
    if (!hear(guest, admit)) continue;
    if (guests_.size() == kMostGuests) guests_.pop_front();
    guests_.push_back(std::move(guest));
  }
  guests_.remove_if([&](Guest& guest) { return !hear(guest, admit); });
}

// A listener that cannot be served stays readable: to poll it would be to spin.
void Doorstep::watch(std::vector<pollfd>& watched) const {
  if (starved_by_ == 0) watched.push_back({listener_.number(), POLLIN, 0});
  for (const Guest& guest : guests_) watched.push_back({guest.socket.number(), POLLIN, 0});
}

std::string Doorstep::trouble() const {
  if (starved_by_ == 0) return {};
  return std::string("; it could take no connection: ") + std::strerror(starved_by_);
}

bool Doorstep::hear(Guest& guest, const Admit& admit) const {
  const int64_t got = receive_some(guest.socket, std::span(guest.heard).subspan(guest.num_heard));
  if (got < 0 || Clock::now() >= guest.until) return false;
  guest.num_heard += static_cast<size_t>(got);
  if (guest.num_heard < hello_bytes_) return true;
  admit(std::move(guest.socket), guest.heard);
  return false;
}

}  // namespace mk
