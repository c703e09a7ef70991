// SPDX-License-Identifier: MIT
// tools/complaint.h — an exception as the program reports it: an exit code and one line.
#pragma once

#include <exception>
#include <string>

#include "request.h"

namespace mk::tools {

struct Complaint {
  int exit_code = 0;
  std::string text;
};

// Of wrong usage in the words of the flags of `request`.
Complaint complaint_of(std::exception_ptr trouble, const RunRequest& request);

}  // namespace mk::tools
