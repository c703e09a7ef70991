// SPDX-License-Identifier: MIT
// tests/support/few_descriptors.h — a process that can open only so many files more.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace mk::test {

// So many descriptors more than are in use, until it goes out of scope.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(0);
    close(next);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(next + more);
    setrlimit(RLIMIT_NOFILE, &now);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace mk::test
