// SPDX-License-Identifier: MIT
// transport/bootstrap.h — how the processes of a world find each other.
//
// Rank 0 listens (Rendezvous) and everybody connects to it; these connections stay, and ranks talk over them (star.h).
//
// A caller joins if it proves that it knows the secret (handshake.h) and has a rank nobody else has, in a world of the
// same size.  A caller that does not know the secret is turned away without effect: no rank waits for a stranger, and
// no length that a stranger sends is believed.  A caller that knows it but has another size, or an impossible rank,
// ends the meeting for all.  Every message has a version and a length that is checked.  Every wait has a deadline and
// names the ranks it lacked.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/root_search.h"
#include "transport/star.h"
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

  // What all ranks say once they have met: exchanges, refusals, failures.
  Star& star() { return *star_; }
  std::vector<std::string> all_gather(const std::string& mine, const std::string& what) {
    return star_->all_gather(mine, what);
  }

 private:
  std::vector<Fd> gather_members(const Rendezvous& rendezvous) const;

  int rank_;
  int size_;
  Secret secret_{};
  std::chrono::milliseconds timeout_;
  std::unique_ptr<Star> star_;
};

}  // namespace mk
