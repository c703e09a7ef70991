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
#include <set>
#include <utility>

#include "children.h"
#include "complaint.h"
#include "mkernel/error.h"
#include "notices.h"
#include "runtime/env_meeting.h"
#include "runtime/launch_env.h"
#include "runtime/world_state.h"
#include "standard_streams.h"
#include "usage.h"

namespace mk::tools {
namespace {

// As `ps` shows it.
void name_process(int rank) { prctl(PR_SET_NAME, fmt::format("mkernel:{}", rank).c_str()); }

// A World's waits are over at the deadline, and what it says after it takes a moment.
Children::Patience patience_with_others(const RunRequest& request) {
  constexpr std::chrono::milliseconds kMoment{400};
  constexpr std::chrono::milliseconds kWork{60'000};  // checks of ranks that were right so far
  constexpr int64_t kMostMs = int64_t{1} << 40;       // as for a World
  int64_t timeout_ms = Options{}.timeout_ms;
  try {
    timeout_ms = request.timeout_ms ? *request.timeout_ms : Options::from_env().timeout_ms;
  } catch (const Error&) {
    // The ranks say what is wrong with it.
  }
  const std::chrono::milliseconds timeout(std::clamp<int64_t>(timeout_ms, 0, kMostMs));
  return {timeout + kMoment, timeout + kWork};
}

// Whatever happens here stays here: an exception would end the other ranks, which this process knows as its parent
// does.
int complain_in(Notices& notices, int rank, const RunRequest& request) noexcept {
  try {
    const Complaint complaint = complaint_of(std::current_exception(), request);
    notices.say(rank, complaint.text);
    return complaint.exit_code;
  } catch (...) {
    return kExitFailed;
  }
}

// The rank's whole life, in a process of its own.
int be_rank(const Seat& seat, const RunRequest& request, Notices& notices,
            const std::function<int(const Seat&)>& body) {
  name_process(seat.rank);
  try {
    const int code = body(seat);
    check_stdout_at_end();
    return code;
  } catch (const OutputError& error) {
    notices.say(seat.rank, error.what());
    return kExitOutput;
  } catch (...) {
    return complain_in(notices, seat.rank, request);
  }
}

// What every rank said of its own failure, then who died: the cause is read last.  What is wrong with the flags, or
// with the output that all share, is thrown as if this process had found it.
int report(const std::vector<ChildEnd>& ends, const Notices& notices) {
  int code = kExitCorrect;
  std::set<std::string> said;
  for (const ChildEnd& end : ends) {
    if (end.exit_code == kExitOutput) throw OutputError(notices.of(end.rank));
    code = std::max(code, end.exit_code < 0 ? kExitFailed : end.exit_code);
    if (const std::string text = notices.of(end.rank); !text.empty()) said.insert(text);
  }
  const bool is_usage = std::ranges::any_of(ends, [](const ChildEnd& end) { return end.exit_code == kExitUsage; });
  if (is_usage && said.size() == 1) throw UsageError(*said.begin());
  for (const ChildEnd& end : ends) {
    if (const std::string text = notices.of(end.rank); !text.empty()) {
      warn_line("mkernel: rank {}: {}", end.rank, text);
    }
  }
  for (const bool is_late : {true, false}) {
    for (const ChildEnd& end : ends) {
      if (!end.death.empty() && end.is_late == is_late) warn_line("mkernel: rank {} {}", end.rank, end.death);
    }
  }
  return code;
}

// The ranks are children of this process, which does nothing but wait for them: whatever happens to one of them, this
// one can end the others and say what happened.
int fork_ranks(const RunRequest& request, Seat seat, const std::function<int(const Seat&)>& body) {
  const int num_ranks = *request.nodes * *request.ranks;
  const Children::Patience patience = patience_with_others(request);
  Notices notices(num_ranks);
  const pid_t parent = getpid();
  signal(SIGCHLD, SIG_DFL);  // whoever started this may have ignored it: then nobody tells how children end
  Children children;         // an Error ends them
  for (int rank = 0; rank < num_ranks; ++rank) {
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
    _exit(be_rank(seat, request, notices, body));
  }
  return report(children.wait_for_all(patience), notices);
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

std::optional<int> rank_of_many() {
  try {
    const std::optional<runtime::LaunchEnv> env = runtime::read_launch_env(runtime::environment);
    return env && env->size > 1 ? std::optional(env->rank) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

int with_launcher(const RunRequest& request, size_t num_worlds, const std::function<int(const Seat&)>& body) {
  Seat seat;
  if (request.launcher == Launcher::kThread) return body(seat);
  if (request.launcher == Launcher::kEnv) {
    seat.rank = runtime::require_launch_env(runtime::environment).rank;
    name_process(seat.rank);
    return body(seat);
  }
  constexpr int kMostProcesses = 256;
  check_usage(*request.nodes <= kMostProcesses / *request.ranks,
              "--nodes x --ranks is {} x {}; with --launcher fork there may be {} processes", *request.nodes,
              *request.ranks, kMostProcesses);
  for (size_t i = 0; i < num_worlds; ++i) seat.ids.push_back(World::unique_id());
  return fork_ranks(request, std::move(seat), body);
}

namespace {

bool has_made_world = false;

}  // namespace

void tell_others(const std::string& why) {
  constexpr int kFirstWorld = 0;
  constexpr std::chrono::milliseconds kLongest{10'000};  // for processes that start later than this one
  if (has_made_world) return;
  try {
    runtime::tell_all_ranks(runtime::require_launch_env(runtime::environment), kFirstWorld, why, kLongest);
  } catch (const Error&) {
    // Whoever does not know its rank cannot tell.
  }
}

World make_world(const RunRequest& request, const Options& options, const Seat& seat, size_t index) {
  const int nodes = *request.nodes;
  const int ranks = *request.ranks;
  // Checked here, so that this process prints its error before the others hear it: mpirun may then end this process.
  if (request.launcher == Launcher::kEnv) {
    const runtime::LaunchEnv env = runtime::require_launch_env(runtime::environment);
    runtime::check_world(runtime::shape_for(env, nodes, ranks), options);
  }
  has_made_world = true;
  switch (request.launcher) {
    case Launcher::kFork: return World::join(seat.ids[index], seat.rank, nodes, ranks, request.device, options);
    case Launcher::kEnv: return World::from_env(nodes, ranks, request.device, options);
    case Launcher::kAuto:
    case Launcher::kThread: break;
  }
  return World::local(nodes, ranks, request.device, options);
}

}  // namespace mk::tools
