// SPDX-License-Identifier: MIT
// transport/doorstep.h — who has come to a listener and has not yet said all of its hello.
//
// There are never many here, and nobody for long: a flood of strangers costs a fixed number of descriptors, and a turn
// a bounded time, whatever they do.  Who has said its hello when it is let in is heard before anybody has to go.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "transport/stream.h"

namespace mk {

class Doorstep {
 public:
  static constexpr size_t kMostGuests = 256;  // at once; the oldest makes room
  static constexpr int kMostAtOnce = 64;      // let in with one turn

  // A hello has `hello_bytes` and comes within `patience`.  The listener outlives this.
  Doorstep(const Fd& listener, size_t hello_bytes, std::chrono::milliseconds patience)
      : listener_(listener), hello_bytes_(hello_bytes), patience_(patience) {}

  // Of each guest that has said its hello: whether it is one is the owner's to judge, and the socket the owner's.
  // Nothing behind the hello has been read.
  using Admit = std::function<void(Fd socket, std::span<const std::byte> hello)>;

  // Lets some in, hears all, waits for nobody.
  void turn(const Admit& admit);

  // What to poll before the next turn.
  void watch(std::vector<pollfd>& watched) const;

  size_t num_guests() const { return guests_.size(); }

  // Empty, or what the last turn lacked to let anybody in, as the end of a sentence.
  std::string trouble() const;

 private:
  struct Guest {
    Fd socket;
    Deadline until;
    std::vector<std::byte> heard;
    size_t num_heard = 0;
  };

  bool hear(Guest& guest, const Admit& admit) const;  // false: it is no guest any more

  const Fd& listener_;
  size_t hello_bytes_;
  std::chrono::milliseconds patience_;
  std::list<Guest> guests_;  // the oldest first
  int starved_by_ = 0;       // the errno of a lack that no guest can make up for; 0 if there is none
};

}  // namespace mk
