// SPDX-License-Identifier: MIT
// tools/children.cc — see children.h.
#include "children.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "usage.h"

namespace mk::tools {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{2};    // between looks at children that run
constexpr milliseconds kSoon{300};  // for those that cannot go on: the last thing they do

std::string describe(int signal) { return fmt::format("signal {} ({})", signal, strsignal(signal)); }

// Until it has ended: of a process that was killed, at once.
int reap(pid_t process) {
  int status = -1;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Children::~Children() {
  for (const Child& child : children_) {
    if (child.is_running) kill(child.process, SIGKILL);
  }
  for (const Child& child : children_) {
    if (child.is_running) reap(child.process);
  }
}

void Children::add(pid_t process, int rank) {
  children_.push_back({});
  children_.back().process = process;
  children_.back().end.rank = rank;
}

std::vector<ChildEnd> Children::wait_for_all(const Patience& patience) {
  for (;;) {
    look();
    if (std::ranges::none_of(children_, &Child::is_running)) break;
    kill_late(patience);
    std::this_thread::sleep_for(kLook);
  }
  std::vector<ChildEnd> ends;
  for (const Child& child : children_) ends.push_back(child.end);
  return ends;
}

void Children::look() {
  for (Child& child : children_) {
    int status = 0;
    while (child.is_running && waitpid(child.process, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0)
      take(child, status);
  }
}

void Children::take(Child& child, int status) {
  if (WIFCONTINUED(status)) {
    child.stopped_by = 0;
    return;
  }
  if (WIFSTOPPED(status)) {
    child.stopped_by = WSTOPSIG(status);
    child.since = Clock::now();
    return;
  }
  child.is_running = false;
  if (WIFEXITED(status)) {
    child.end.exit_code = WEXITSTATUS(status);
  } else {
    child.end.death = fmt::format("was killed by {}", describe(WTERMSIG(status)));
  }
  any_misused_ = any_misused_ || child.end.exit_code == kExitUsage || child.end.exit_code == kExitOutput;
  any_failed_ = any_failed_ || child.end.exit_code != kExitCorrect;
  any_ended_ = true;
  last_end_ = Clock::now();
}

void Children::kill_late(const Patience& patience) {
  if (!any_ended_) return;
  const auto now = Clock::now();
  const milliseconds longest = any_misused_ ? kSoon : any_failed_ ? patience.after_failure : patience.after_success;
  for (Child& child : children_) {
    if (!child.is_running) continue;
    if (child.stopped_by != 0 && now >= std::max(child.since, last_end_) + kSoon) {
      kill_now(child, fmt::format("was stopped by {} and did not go on", describe(child.stopped_by)));
    } else if (now >= last_end_ + longest) {
      // They wait for a rank that does not come: nothing to say of them.
      kill_now(child, any_misused_ ? "" : fmt::format("had not ended {} ms after another rank", longest.count()));
    }
  }
}

void Children::kill_now(Child& child, std::string death) {
  kill(child.process, SIGKILL);
  reap(child.process);
  child.is_running = false;
  child.end.death = death.empty() ? "" : fmt::format("{}; it was killed", death);
}

}  // namespace mk::tools
