// SPDX-License-Identifier: MIT
// base/what.h — what an exception says to a user: "std::bad_alloc" is "out of memory".
#pragma once

#include <exception>
#include <new>

namespace mk {

// As short as that it needs no memory in a string.
inline const char* what_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory" : error.what();
}

}  // namespace mk
