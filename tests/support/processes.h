// SPDX-License-Identifier: MIT
// tests/support/processes.h — a world whose ranks are processes of this machine, and launches in it.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "core/world_shape.h"
#include "mkernel/mkernel.h"

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

inline size_t bytes_of(const Tensor& tensor) {
  return static_cast<size_t>(tensor.rows * tensor.cols) * size_of(tensor.dtype);
}

// Runs run(rank) in a process for each rank, which leaves the rank's results in its launches' tensors; brings all of
// them here and checks them.
template <class Launch, class Run>
testing::AssertionResult processes_leave_right(const WorldShape& shape, std::vector<Launch>& launches, Run&& run) {
  size_t bytes = 1;
  for (Launch& launch : launches) {
    for (const auto& args : launch.args()) bytes += bytes_of(args.c);
  }
  const CommonMemory results(bytes);
  const auto run_and_tell = [&](int rank) {
    run(rank);
    std::byte* to = results.data();
    for (Launch& launch : launches) {
      const auto all = launch.args();
      for (size_t r = 0; r < all.size(); to += bytes_of(all[r++].c)) {
        if (static_cast<int>(r) == rank) std::memcpy(to, all[r].c.data, bytes_of(all[r].c));
      }
    }
    return true;
  };
  if (auto done = processes_do(shape.size(), run_and_tell); !done) return done;
  const std::byte* from = results.data();
  for (Launch& launch : launches) {
    for (const auto& args : launch.args()) {
      std::memcpy(args.c.data, from, bytes_of(args.c));
      from += bytes_of(args.c);
    }
  }
  for (const Launch& launch : launches) {
    if (auto right = launch.is_right(); !right) return right;
  }
  return testing::AssertionSuccess();
}

// On CPUs: every rank joins with join(rank), queues all launches with call(world, its args) and waits.
template <class Launch, class Call, class Join>
requires std::is_invocable_r_v<World, Join, int> testing::AssertionResult processes_run_right(
    const WorldShape& shape, std::vector<Launch>& launches, Call&& call, Join&& join) {
  return processes_leave_right(shape, launches, [&](int rank) {
    World world = join(rank);
    for (Launch& launch : launches) {
      const auto args = launch.args();
      call(world, std::span(&args[rank], 1));
    }
    world.synchronize();
  });
}

template <class Launch, class Call>
testing::AssertionResult processes_run_right(const WorldShape& shape, std::vector<Launch>& launches, Call&& call,
                                             const Options& options = {.timeout_ms = 20'000}) {
  const std::string id = World::unique_id();
  return processes_run_right(shape, launches, call,
                             [&](int rank) { return World::join(id, rank, shape.nodes, shape.ranks, options); });
}

}  // namespace mk::test
