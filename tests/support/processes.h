// SPDX-License-Identifier: MIT
// tests/support/processes.h — processes of this machine, and memory they share.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace mk::test {

// Runs body(rank) in a process for each rank; false, an exception, or a process that does not start or of whose end
// nothing is known is a failure.  No process outlives this.
inline testing::AssertionResult processes_do(int count, const std::function<bool(int)>& body) {
  std::fflush(nullptr);  // or every process writes out what this one has not yet
  std::vector<pid_t> children;
  std::string failed;
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = fork();
    if (child < 0) {
      failed = " " + std::to_string(rank) + " (not started)";
      deadline = {};  // the others would wait for it
      break;
    }
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    int status = 2;
    try {
      status = body(rank) ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    std::fflush(nullptr);
    _exit(status);
  }
  for (size_t rank = 0; rank < children.size(); ++rank) {
    int status = -1;
    while (waitpid(children[rank], &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() >= deadline) kill(children[rank], SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (status != 0) failed.append(" ").append(std::to_string(rank));
  }
  if (failed.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "failed in rank" << failed;
}

// Memory that this process and those it forks see together.
class CommonMemory {
 public:
  explicit CommonMemory(size_t bytes)
      : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  CommonMemory(const CommonMemory&) = delete;
  ~CommonMemory() { munmap(data_, bytes_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace mk::test
