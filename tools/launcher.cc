// SPDX-License-Identifier: MIT
// tools/launcher.cc — see launcher.h.
#include "launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>

#include "children.h"
#include "mkernel/error.h"
#include "runtime/launch_env.h"
#include "standard_streams.h"
#include "usage.h"

namespace mk::tools {
namespace {

// Rank 0 says what is wrong with the flags; the others say only what rank 0 may not know.
int run_quietly(const Seat& seat, const std::function<int(const Seat&)>& body) {
  try {
    return body(seat);
  } catch (const UsageError&) {
    return kExitUsage;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kUnavailable) return kExitUsage;
    warn_line("mkernel: rank {}: {}", seat.rank, error.what());
  } catch (const std::exception& error) {
    warn_line("mkernel: rank {}: {}", seat.rank, error.what());
  }
  return kExitFailed;
}

// For what a rank has left to do when rank 0 has ended: a wait of a World, to its end, and what comes after it.
std::chrono::milliseconds patience_with_others(const RunRequest& request) {
  constexpr std::chrono::milliseconds kGrace{60'000};
  constexpr int64_t kMostMs = int64_t{1} << 40;  // as for a World
  const int64_t timeout_ms = request.timeout_ms ? *request.timeout_ms : Options::from_env().timeout_ms;
  return std::chrono::milliseconds(std::clamp<int64_t>(timeout_ms, 0, kMostMs)) + kGrace;
}

}  // namespace

RunRequest with_launcher_chosen(RunRequest request) {
  if (request.launcher == Launcher::kAuto) {
    const std::optional<runtime::LaunchEnv> env = runtime::read_launch_env(runtime::environment);
    request.launcher = env && env->size > 1 ? Launcher::kEnv : Launcher::kThread;
  }
  const bool is_env = request.launcher == Launcher::kEnv;
  if (request.launcher != Launcher::kThread) {
    check_usage(request.nodes.value_or(1) >= 1, "--nodes is {}; it must be at least 1", *request.nodes);
    check_usage(request.ranks.value_or(1) >= 1, "--ranks is {}; it must be at least 1", *request.ranks);
  }
  request.nodes = request.nodes.value_or(is_env ? 0 : kNodes);
  request.ranks = request.ranks.value_or(is_env ? 0 : kRanks);
  return request;
}

bool speaks_for_all() {
  try {
    const std::optional<runtime::LaunchEnv> env = runtime::read_launch_env(runtime::environment);
    return !env || env->rank == 0;
  } catch (const Error&) {
    return true;
  }
}

int with_launcher(const RunRequest& request, size_t num_worlds, const std::function<int(const Seat&)>& body) {
  Seat seat;
  if (request.launcher == Launcher::kThread) return body(seat);
  if (request.launcher == Launcher::kEnv) {
    seat.rank = runtime::require_launch_env(runtime::environment).rank;
    return seat.rank == 0 ? body(seat) : run_quietly(seat, body);
  }
  const int nodes = *request.nodes;
  const int ranks = *request.ranks;
  constexpr int kMostProcesses = 256;
  check_usage(nodes <= kMostProcesses / ranks,
              "--nodes x --ranks is {} x {}; with --launcher fork there may be {} processes", nodes, ranks,
              kMostProcesses);
  const std::chrono::milliseconds patience = patience_with_others(request);
  for (size_t i = 0; i < num_worlds; ++i) seat.ids.push_back(World::unique_id());
  std::fflush(nullptr);  // or every process writes out what this one has not yet
  const pid_t parent = getpid();
  Children children;  // an Error ends them, as rank 0 will not come
  for (int rank = 1; rank < nodes * ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) {
      throw Error(ErrorCode::kDevice,
                  fmt::format("no process could be started for rank {}: {}", rank, std::strerror(errno)));
    }
    if (child > 0) {
      children.add(child, rank);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kExitFailed);
    seat.rank = rank;
    _exit(run_quietly(seat, body));
  }
  try {
    const int code = body(seat);
    return children.wait_for_all(patience) ? code : std::max<int>(code, kExitFailed);
  } catch (const UsageError&) {
    throw;  // found before anything ran, and by rank 0 only
  } catch (const OutputError&) {
    throw;  // found by rank 0 only, for whom the others would wait
  } catch (...) {
    children.wait_for_all(patience);  // they may say what rank 0 does not know
    throw;
  }
}

World make_world(const RunRequest& request, const Options& options, const Seat& seat, size_t index) {
  const int nodes = *request.nodes;
  const int ranks = *request.ranks;
  switch (request.launcher) {
    case Launcher::kFork: return World::join(seat.ids[index], seat.rank, nodes, ranks, request.device, options);
    case Launcher::kEnv: return World::from_env(nodes, ranks, request.device, options);
    case Launcher::kAuto:
    case Launcher::kThread: break;
  }
  return World::local(nodes, ranks, request.device, options);
}

}  // namespace mk::tools
