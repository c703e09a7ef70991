// SPDX-License-Identifier: MIT
// runtime/env_meeting.h — how processes that a launcher started meet without a unique id.
//
// By address, where one is known: rank 0 listens there, and the World's secret is derived from one that all ranks
// have. Else by file: rank 0 listens at any free port and leaves its unique id, with a new secret, in a file that only
// this user can read.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/launch_env.h"
#include "transport/bootstrap.h"

namespace mk::runtime {

// `number` tells the worlds of a job apart: all ranks make them in the same order.  Throws Error.
std::unique_ptr<Bootstrap> meet(const LaunchEnv& env, int number, std::chrono::milliseconds timeout);

// For a rank that cannot make that World, because of `why`: it meets the others all the same, so that they hear it at
// once instead of waiting for this rank until their deadline.  If it cannot meet them, nothing is thrown.
void tell_all_ranks(const LaunchEnv& env, int number, const std::string& why, std::chrono::milliseconds timeout);

}  // namespace mk::runtime
