// SPDX-License-Identifier: MIT
// base/check.h — one line to refuse a bad argument.
#pragma once

#include <fmt/format.h>

#include "mkernel/error.h"

namespace mk {

// check_arg(k > 0, "k is {}; it must be at least 1", k)
template <class... Args>
void check_arg(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) throw Error(ErrorCode::kInvalidArgument, fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace mk
