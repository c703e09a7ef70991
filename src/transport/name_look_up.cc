// SPDX-License-Identifier: MIT
// transport/name_look_up.cc — see name_look_up.h.
#include "transport/name_look_up.h"

#include <fmt/format.h>

#include <system_error>
#include <thread>
#include <utility>

#include "mkernel/error.h"

namespace mk {

NameLookUp::NameLookUp(const Endpoint& endpoint, const Resolver& resolver) {
  std::packaged_task<Places()> task([endpoint, resolver] { return resolver(endpoint); });
  answer_ = task.get_future();
  if (endpoint.is_number()) {
    task();
    return;
  }
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kDevice,
                fmt::format("no thread can be had to look '{}' up: {}", endpoint.host, error.what()));
  }
}

}  // namespace mk
