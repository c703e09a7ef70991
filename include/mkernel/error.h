// SPDX-License-Identifier: MIT
// mkernel/error.h — the one exception type of the library.
//
// An Error carries a code a program can branch on and one sentence a person can act on.  Bad arguments
// are found before anything is launched: the World stays usable after kInvalidArgument and
// kUnavailable.  After kTimeout, kFabric or kAborted the World has failed and only a new one works; after kDevice
// World::failed() tells.
#pragma once

#include <stdexcept>
#include <string>

#include "mkernel/export.h"

namespace mk {

enum class ErrorCode {
  kInvalidArgument,  // the message names the argument, what it was and what is allowed
  kUnavailable,      // this build or machine lacks what was asked for; the message says how to get it
  kTimeout,          // a wait passed its deadline; the message names who waited for what
  kFabric,           // the network failed
  kDevice,           // a CUDA call failed, or memory or threads ran out
  kAborted,          // World::abort was called in this process; the message has its reason
};

class MK_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace mk
