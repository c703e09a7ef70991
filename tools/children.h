// SPDX-License-Identifier: MIT
// tools/children.h — processes that this one has forked: none is left behind, and none is waited for in vain.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cerrno>
#include <vector>

namespace mk::tools {

class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;

  // Ends those that were not waited for: whoever leaves early has nothing more for them to do.
  ~Children() {
    for (const pid_t child : running_) kill(child, SIGKILL);
    wait_for_all();
  }

  void add(pid_t child) { running_.push_back(child); }

  // Waits for all; each ends by itself, because its waits are bounded.  True if all exited with 0.
  bool wait_for_all() {
    bool well = true;
    for (const pid_t child : running_) {
      int status = -1;
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    running_.clear();
    return well;
  }

 private:
  std::vector<pid_t> running_;
};

}  // namespace mk::tools
