// SPDX-License-Identifier: MIT
// transport/staged_address.h — what the ranks of a staged fabric tell each other: the inner fabric's address, and the
// number and size of slots.
#pragma once

#include <string>

#include "transport/staged_settings.h"

namespace mk {

struct StagedAddress {
  StagedSettings settings;
  std::string inner;  // address of the inner port
  std::string key;    // that the inner port has for the window of slots
};

std::string encode(const StagedAddress& address);

// Throws Error, naming `rank` which said it, unless it is one and its slots are as `own`.
StagedAddress decode_address(const std::string& bytes, int rank, const StagedSettings& own);

}  // namespace mk
