// SPDX-License-Identifier: MIT
// transport/start_thread.h — a thread, or an Error a user can act on.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "mkernel/error.h"

namespace mk {

// `purpose` says whose thread it is and what for, such as "worker 3 of rank 1".
template <class Function>
std::thread start_thread(std::string_view purpose, Function&& function) {
  try {
    return std::thread(std::forward<Function>(function));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kDevice, fmt::format("cannot start a thread for {}: {}; try fewer ranks, or allow more "
                                                "threads (ulimit -u, pids.max of the cgroup)",
                                                purpose, error.what()));
  }
}

}  // namespace mk
