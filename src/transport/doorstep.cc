// SPDX-License-Identifier: MIT
// transport/doorstep.cc — see doorstep.h.
#include "transport/doorstep.h"

#include <cerrno>
#include <utility>

namespace mk {

void Doorstep::turn(const Admit& admit) {
  is_starved_ = false;
  for (int i = 0; i < kMostAtOnce; ++i) {
    Fd socket = accept_from(listener_);
    if (!socket) {
      if (errno != EMFILE && errno != ENFILE) break;  // nobody is there
      is_starved_ = guests_.empty();
      if (is_starved_) break;
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
  if (!is_starved_) watched.push_back({listener_.number(), POLLIN, 0});
  for (const Guest& guest : guests_) watched.push_back({guest.socket.number(), POLLIN, 0});
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
