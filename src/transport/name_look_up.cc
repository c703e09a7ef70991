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
  std::packaged_task<Answer()> task([endpoint, resolver]() -> Answer {
    try {
      return {resolver(endpoint), ""};
    } catch (const Error& error) {
      return {{}, error.what()};
    }
  });
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

NameLookUp::Addresses NameLookUp::take() {
  Answer answer = answer_.get();
  if (!answer.trouble.empty()) throw Error(ErrorCode::kInvalidArgument, answer.trouble);
  return std::move(answer.addresses);
}

}  // namespace mk
