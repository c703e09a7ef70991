// SPDX-License-Identifier: MIT
// transport/name_look_up.h — the addresses of a host, with a deadline, even if the name server does not answer.
//
// The system's look-up cannot be cancelled, so it runs in a thread of its own.  A caller that no longer waits leaves
// that thread behind.  The thread uses nothing of the caller's, and ends when the system gives up.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "transport/stream.h"

namespace mk {

class NameLookUp {
 public:
  using Addresses = std::vector<SocketAddress>;
  using Resolver = std::function<Addresses(const Endpoint&)>;

  // Begins it.  A number instead of a name needs no thread and is looked up at once.
  explicit NameLookUp(const Endpoint& endpoint, const Resolver& resolver = look_up);

  // Whether there is an answer, at the latest at the deadline.
  bool is_done(Deadline deadline) const { return answer_.wait_until(deadline) == std::future_status::ready; }

  // Once, when it is done.  Throws Error(kInvalidArgument) if the host has no address.
  Addresses take();

 private:
  struct Answer {
    Addresses addresses;
    std::string trouble;  // if there are none
  };

  std::future<Answer> answer_;
};

}  // namespace mk
