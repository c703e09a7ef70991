// SPDX-License-Identifier: MIT
// tools/fuzz_command.cc — `mkernel fuzz`: many seeds, each a whole world under virtual time.
//
// Seeds are dealt to the machine's threads; each run is its own single-threaded world, so which thread
// runs it changes nothing.  The first seed that fails, in numerical order, is reported.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "sim_commands.h"
#include "sim_operators.h"
#include "usage.h"

namespace mk::tools {
namespace {

struct Failure {
  uint64_t seed;
  FuzzOutcome outcome;
};

class Campaign {
 public:
  Campaign(const SimOperator& op, const FuzzRequest& request)
      : op_(op),
        request_(request),
        limits_{request.nodes, request.ranks, request.m, request.n, request.k, request.launches},
        next_(request.first_seed) {}

  void run() {
    std::vector<std::thread> threads;
    const uint64_t seeds = request_.last_seed - request_.first_seed + 1;
    const unsigned count =
        static_cast<unsigned>(std::min<uint64_t>(std::max(1u, std::thread::hardware_concurrency()), seeds));
    threads.reserve(count);
    try {
      for (unsigned i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // fewer threads than processors do as well
      if (threads.empty()) throw;
    }
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
  }

  uint64_t passed() const { return passed_; }
  const std::optional<Failure>& failure() const { return failure_; }

 private:
  void work() {
    try {
      while (const std::optional<uint64_t> seed = draw()) {
        FuzzOutcome outcome = op_.fuzz(*seed, limits_, nullptr);
        record(*seed, std::move(outcome));
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      done_ = true;
    }
  }

  std::optional<uint64_t> draw() {
    const std::lock_guard lock(mutex_);
    if (done_ || exhausted_) return std::nullopt;
    const uint64_t seed = next_;
    exhausted_ = seed == request_.last_seed;  // the last may be the largest number there is
    next_ = seed + 1;
    return seed;
  }

  void record(uint64_t seed, FuzzOutcome outcome) {
    const std::lock_guard lock(mutex_);
    if (outcome.complaints.empty()) {
      ++passed_;
    } else {
      done_ = true;
      if (!failure_ || seed < failure_->seed) failure_ = {seed, std::move(outcome)};
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_ < std::chrono::seconds(5)) return;
    shown_ = now;
    fmt::print(stderr, "{}: {} seeds passed\n", op_.name, passed_);
  }

  const SimOperator& op_;
  const FuzzRequest& request_;
  const FuzzLimits limits_;
  std::mutex mutex_;
  uint64_t next_;
  bool exhausted_ = false;
  bool done_ = false;
  uint64_t passed_ = 0;
  std::optional<Failure> failure_;
  std::exception_ptr error_;
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();
};

void print_failure(const SimOperator& op, uint64_t seed, const FuzzOutcome& outcome) {
  fmt::print("{} seed {} failed: {}\n", op.name, seed, outcome.what);
  const sim::Complaint& first = outcome.complaints.front();
  fmt::print("{}: {}\n", first.kind, first.text);
}

// A single seed, written down.
bool replay(const SimOperator& op, const FuzzRequest& request) {
  std::ofstream trace(*request.trace);
  check_usage(trace.good(), "--trace is '{}', which cannot be written", *request.trace);
  const FuzzOutcome outcome = op.fuzz(
      request.first_seed, {request.nodes, request.ranks, request.m, request.n, request.k, request.launches}, &trace);
  trace.flush();
  if (!trace.good()) throw std::runtime_error("cannot write the --trace file");
  fmt::print("{} seed {}: {}; trace in {}\n", op.name, request.first_seed, outcome.what, *request.trace);
  if (!outcome.complaints.empty()) print_failure(op, request.first_seed, outcome);
  return outcome.complaints.empty();
}

}  // namespace

int fuzz_command(const FuzzRequest& request) {
  uint64_t passed = 0;
  uint64_t failed = 0;
  for (const SimOperator& op : sim_operators()) {
    if (request.op != "all" && request.op != op.name) continue;
    if (request.trace) {
      (replay(op, request) ? passed : failed) += 1;
      continue;
    }
    Campaign campaign(op, request);
    campaign.run();
    passed += campaign.passed();
    if (const std::optional<Failure>& failure = campaign.failure()) {
      ++failed;
      print_failure(op, failure->seed, failure->outcome);
      fmt::print("the same flags with --seed {} --trace FILE replay it\n", failure->seed);
    }
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? kExitCorrect : kExitFailed;
}

}  // namespace mk::tools
