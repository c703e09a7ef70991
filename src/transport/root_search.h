// SPDX-License-Identifier: MIT
// transport/root_search.h — how a rank finds rank 0, which may be at any of several addresses and may not be there
// yet.
//
// An address may be silent, or belong to another machine: private networks reuse addresses.  So an accepted connection
// is not enough: rank 0 is whoever proves that it knows the secret (handshake.h).  A new address is tried shortly
// after the one before, while the earlier calls go on.  If rank 0 is reached at two addresses, it answers at one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "transport/stream.h"
#include "transport/unique_id.h"

namespace mk {

// Where a rank learns the id: asked again and again, as what it says may be old or not there yet.
struct IdSource {
  std::function<std::optional<UniqueId>()> read;
  std::string trouble;  // what is said if there was nothing to read until the end
};

// The connection to rank 0, which has heard the hello, and the secret of the id that led there.
struct Root {
  Fd socket;
  Secret secret{};
};

// Throws Error: kTimeout at the deadline, with what was wrong with each address; kInvalidArgument if rank 0 refuses
// this rank, whose number or size is wrong; kFabric if whoever is at the addresses closes the connection, as a rank 0
// with another secret does, again and again for a quarter of the time: until then the id may yet change, or another
// rank 0 take the place of an old one.
Root find_root(const IdSource& source, int rank, int size, Deadline deadline);

}  // namespace mk
