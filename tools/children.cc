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
    if (!child.is_running) continue;
    int status = 0;
    pid_t changed = 0;
    do {
      changed = waitpid(child.process, &status, WNOHANG | WUNTRACED | WCONTINUED);
      if (changed > 0) take(child, status);
      if (changed < 0 && errno == ECHILD) lose(child);
    } while (child.is_running && changed > 0);
  }
}

// Somebody else has asked how it ended.
void Children::lose(Child& child) {
  child.is_running = false;
  child.end.death = "ended, and nobody knows how";
  any_ended_ = true;
  any_failed_ = true;
  last_end_ = Clock::now();
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
  is_hopeless_ = is_hopeless_ || child.end.exit_code == kExitUsage || child.end.exit_code == kExitOutput;
  any_failed_ = any_failed_ || child.end.exit_code != kExitCorrect;
  any_ended_ = true;
  last_end_ = Clock::now();
}

void Children::kill_late(const Patience& patience) {
  const auto now = Clock::now();
  for (Child& child : children_) {
    if (!child.is_running || child.stopped_by == 0) continue;
    const bool others_ended = any_ended_ && now >= std::max(child.since, last_end_) + kSoon;
    if (!others_ended && now < child.since + patience.after_failure) continue;
    kill_now(child, fmt::format("was stopped by {} and did not go on; it was killed", describe(child.stopped_by)));
    is_hopeless_ = is_hopeless_ || !others_ended;
  }
  if (!any_ended_) return;
  const milliseconds longest = is_hopeless_ ? kSoon : any_failed_ ? patience.after_failure : patience.after_success;
  for (Child& child : children_) {
    if (!child.is_running || now < last_end_ + longest) continue;
    kill_now(child, fmt::format("had not ended {} ms after another rank; it was killed", longest.count()));
    child.end.is_late = true;
  }
}

void Children::kill_now(Child& child, std::string death) {
  kill(child.process, SIGKILL);
  const int status = reap(child.process);
  if (WIFEXITED(status)) return take(child, status);  // it was quicker
  child.is_running = false;
  child.end.death = std::move(death);
  any_ended_ = true;
  any_failed_ = true;
  last_end_ = Clock::now();
}

}  // namespace mk::tools
