// SPDX-License-Identifier: MIT
// transport/fabric_choice.h — which fabric a world uses: the one that was asked for, or the best that all ranks have.
//
// Ranks that are processes tell each other their offers first, so all choose alike, and a rank that lacks a fabric or
// was asked for another is named to all of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mk {

constexpr const char* kAutomaticFabric = "auto";

// Throws Error(kInvalidArgument) if `net` is neither auto nor the name of a fabric.
void check_net(const std::string& net);

// What one rank can use, for choose_fabric only.
std::string fabric_offer(const std::string& net);

// Of the ranks' offers.  Throws Error(kUnavailable) with the rank, what it lacks, and what there is.
std::string choose_fabric(const std::vector<std::string>& offers);

}  // namespace mk
