// SPDX-License-Identifier: MIT
// runtime/start_thread.h — a thread, or an Error a user can act on.
#pragma once

#include <fmt/format.h>

#include <system_error>
#include <thread>
#include <utility>

#include "mkernel/error.h"

namespace mk::runtime {

template <class Function>
std::thread start_thread(Function&& function) {
  try {
    return std::thread(std::forward<Function>(function));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kDevice, fmt::format("cannot start another thread ({}); try fewer ranks", error.what()));
  }
}

}  // namespace mk::runtime
