// SPDX-License-Identifier: MIT
// transport/nic_choice.h — which NICs each rank of a world uses: those it was given, else those nearest to its GPU.
//
// NIC i of a rank talks to NIC i of its peer, so all ranks use the same number of NICs.  Ranks tell each other what
// they have before they choose.  If nodes differ, all use the smallest count.  If the user asked for more than a rank
// has, all ranks get an Error that names that rank.
#pragma once

#include <string>
#include <vector>

#include "transport/topology.h"

namespace mk {

// The ports of `devices` that placement.h gives GPU `local`, among those of the list `nics` if it is not empty.  None
// where there is nothing to choose: without that GPU, or with fewer than two active ports.
std::vector<std::string> nearest_nics(Topology topology, const std::vector<std::string>& devices,
                                      const std::string& nics, int local);

// What the rank of this number in its node has, for choose_nics only.  `nics` is as in Options, `devices` are those
// that the fabric can use; an empty topology stands for one that is not known.
std::string nic_offer(const Topology& topology, const std::vector<std::string>& devices, const std::string& nics,
                      int local);

// Of the ranks' offers, for one of them; empty: the first that is active.  Throws Error(kInvalidArgument) with the
// ranks that do not fit, and what they have.
std::vector<std::string> choose_nics(const std::vector<std::string>& offers, int rank);

}  // namespace mk
