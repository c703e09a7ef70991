// SPDX-License-Identifier: MIT
// transport/bootstrap.h — how the processes of a world find each other, and tell each other small things.
//
// Rank 0 listens (Rendezvous) and everybody connects to it; all_gather is a star.  It is for set-up: addresses,
// handles, agreement on a problem.
//
// Who may join proves that it knows the secret (handshake.h) and has a rank nobody else has, in a world of the same
// size.  Who does not know the secret is turned away without effect: no rank waits for a stranger, and no length a
// stranger sends is believed.  Who knows it but has another size, or an impossible rank, ends the meeting for all.
// Every message has a version and a length that is checked.  Every wait has a deadline and names the ranks it lacked.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/root_search.h"
#include "transport/stream.h"
#include "transport/unique_id.h"

namespace mk {

// Rank 0's place to meet: open from its construction on, so its id may be spread before rank 0 itself joins.
class Rendezvous {
 public:
  Rendezvous() : Rendezvous(0, random_secret()) {}
  Rendezvous(int port, const Secret& secret) : listener_(open_listener(port)), secret_(secret) {}

  UniqueId id() const;
  const Secret& secret() const { return secret_; }
  const Fd& listener() const { return listener_; }

 private:
  Fd listener_;
  Secret secret_;
};

class Bootstrap {
 public:
  // Of rank 0.  The rendezvous is over when it returns or throws.
  Bootstrap(std::unique_ptr<Rendezvous> rendezvous, int size, std::chrono::milliseconds timeout);
  // Of every other rank.
  Bootstrap(const UniqueId& id, int rank, int size, std::chrono::milliseconds timeout);
  Bootstrap(const IdSource& source, int rank, int size, std::chrono::milliseconds timeout);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Secret& secret() const { return secret_; }

  // What every rank says, by rank; all ranks call it in the same order.  `what` names it in errors.
  std::vector<std::string> all_gather(const std::string& mine, const std::string& what);

 private:
  void gather_members(const Rendezvous& rendezvous);
  std::string receive(const Fd& from, int rank, Deadline deadline, const std::string& what) const;
  Deadline deadline() const { return Clock::now() + timeout_; }

  int rank_;
  int size_;
  Secret secret_{};
  std::chrono::milliseconds timeout_;
  std::vector<Fd> members_;  // rank 0: by rank, none for itself
  Fd root_;                  // the others
  uint32_t exchanges_ = 0;   // begun
};

}  // namespace mk
