// SPDX-License-Identifier: MIT
// tools/children.h — forked processes, one per rank: none is left behind, and no wait for them is endless.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace mk::tools {

// How a child ended.
struct ChildEnd {
  int rank = 0;
  int exit_code = -1;   // -1 if it was killed
  std::string death{};  // "was killed by signal 9 (Killed)", or why it was killed here; empty if it exited
  // It was killed here because of another that had died or failed: not the cause.
  bool is_late = false;
};

class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  ~Children();  // kills those that were not waited for: whoever leaves early has nothing more for them to do

  void add(pid_t process, int rank);

  // How long others may go on, each time by the clock of what happened last.
  struct Patience {
    std::chrono::milliseconds after_failure;  // of one: the others must notice it within their deadline
    std::chrono::milliseconds after_success;  // of one: the others have work of their own left
  };

  // Waits for all, in the order of their ranks.  One that does not end in time is killed: soon, if another found wrong
  // usage or nowhere to print to.  So is one that was stopped by a signal, when another has ended or when the others
  // must have noticed it; they then end soon.
  std::vector<ChildEnd> wait_for_all(const Patience& patience);

 private:
  using Clock = std::chrono::steady_clock;
  struct Child {
    pid_t process = 0;
    ChildEnd end;
    bool is_running = true;
    int stopped_by = 0;       // a signal; 0 if it is not stopped
    Clock::time_point since;  // it stopped
  };

  void look();
  void take(Child& child, int status);
  void lose(Child& child);
  void kill_late(const Patience& patience);
  void kill_now(Child& child, std::string death);

  std::vector<Child> children_;
  Clock::time_point last_end_;
  bool any_ended_ = false;
  bool any_failed_ = false;
  bool is_hopeless_ = false;  // the others cannot go on, and need no time to find out
};

}  // namespace mk::tools
