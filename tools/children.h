// SPDX-License-Identifier: MIT
// tools/children.h — processes that this one has forked: none is left behind, and none is waited for in vain.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "standard_streams.h"

namespace mk::tools {

class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;

  // Ends those that were not waited for: whoever leaves early has nothing more for them to do.
  ~Children() {
    for (const Child& child : running_) {
      kill(child.process, SIGKILL);
      end_of(child);
    }
  }

  void add(pid_t process, int rank) { running_.push_back({process, rank}); }

  // Waits for all; each should end by itself, because its waits are bounded.  One that has not when `longest` is over
  // is killed, which is said.  True if all exited with 0.
  bool wait_for_all(std::chrono::milliseconds longest) {
    const auto until = std::chrono::steady_clock::now() + longest;
    bool well = true;
    for (const Child& child : running_) {
      int status = -1;
      while (waitpid(child.process, &status, WNOHANG) == 0) {
        if (std::chrono::steady_clock::now() >= until) {
          warn_line("mkernel: rank {} had not ended {} ms after rank 0 and was killed", child.rank, longest.count());
          kill(child.process, SIGKILL);
          status = end_of(child);
          break;
        }
        std::this_thread::sleep_for(kLook);
      }
      well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    running_.clear();
    return well;
  }

 private:
  struct Child {
    pid_t process;
    int rank;
  };
  static constexpr std::chrono::milliseconds kLook{2};  // between looks at a child that runs

  static int end_of(const Child& child) {
    int status = -1;
    while (waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

  std::vector<Child> running_;
};

}  // namespace mk::tools
