// SPDX-License-Identifier: MIT
// tests/process/process_world_test.cc — worlds of processes: same operators, same bits, and who is missing or differs
// is named.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "runtime/host_device.h"
#include "runtime/world_state.h"
#include "tests/support/expect_error.h"
#include "tests/support/op_processes.h"

namespace mk::test {
namespace {

constexpr Shape kShape{67, 129, 3};

struct ProcessCase {
  WorldShape world;
  std::string net = "auto";

  Options options() const {
    Options options{.timeout_ms = 20'000};
    options.net = net;
    return options;
  }
};

std::string name_of(const ProcessCase& at) { return name_of(at.world) + "_" + at.net; }

class ProcessWorlds : public testing::TestWithParam<std::tuple<Op, ProcessCase>> {};

INSTANTIATE_TEST_SUITE_P(Worlds, ProcessWorlds,
                         testing::Combine(testing::ValuesIn(kOps),
                                          testing::Values(ProcessCase{{1, 1}}, ProcessCase{{1, 2}}, ProcessCase{{1, 4}},
                                                          ProcessCase{{1, 7}}, ProcessCase{{2, 1}}, ProcessCase{{2, 2}},
                                                          ProcessCase{{2, 4}}, ProcessCase{{3, 2}}, ProcessCase{{4, 1}},
                                                          ProcessCase{{2, 2}, "shm"}, ProcessCase{{2, 4}, "shm"},
                                                          ProcessCase{{3, 2}, "shm"})),
                         joined_names);

TEST_P(ProcessWorlds, FiveQueuedLaunchesAreRight) {
  const auto& [op, at] = GetParam();
  std::vector<OpLaunch> launches = launches_of(op, at.world, kShape, 5);
  EXPECT_TRUE(processes_run_right(at.world, launches, at.options()));
}

void run_in(World& world, OpLaunch& launch) {
  enqueue(world, launch);
  world.synchronize();
}

TEST(ProcessWorld, ARankThatNeverJoinsIsNamedByRankZero) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    const ErrorCode code = rank == 0 ? ErrorCode::kTimeout : ErrorCode::kFabric;
    return static_cast<bool>(
        throws(code, {"ranks 2 of 3"}, [&] { World::join(id, rank, 1, 3, {.timeout_ms = rank == 0 ? 500 : 20'000}); }));
  }));
}

TEST(ProcessWorld, ARankAtAnotherProblemIsNamedBeforeAnythingRuns) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    World world = World::join(id, rank, 1, 2, {.timeout_ms = 10'000});
    OpLaunch launch(Op::kAgGemm, {1, 2}, {{4, rank == 0 ? 8 : 16, 3}});
    const bool told = static_cast<bool>(
        refuses({"rank 1 asks for", "8x16x3", "rank 0 asks for", "8x8x3"}, [&] { enqueue(world, launch); }));
    // The world is as good as before.
    OpLaunch again(Op::kAgGemm, {1, 2}, {kShape}, 2);
    run_in(world, again);
    return told && launch.is_untouched(rank) && !again.is_untouched(rank);
  }));
}

// The others have a plan by then and exchange nothing: what one rank refuses alone must not bring exchanges out of
// step.
TEST(ProcessWorld, ARankMayTryAgainAfterACallThatItAloneRefused) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(3, [&](int rank) {
    World world = World::join(id, rank, 1, 3, {.timeout_ms = 10'000});
    OpLaunch launch(Op::kAgGemm, {1, 3}, {kShape});
    run_in(world, launch);
    OpArgs bad = launch.args()[rank];
    bad.in[0].data = nullptr;
    if (rank == 1 && !refuses({"a of rank 1"}, [&] { call(Op::kAgGemm, world, {&bad, 1}); })) return false;
    run_in(world, launch);
    OpLaunch other(Op::kAgGemm, {1, 3}, {{5, 7, 3}}, 2);  // needs a plan, so all must be in step
    run_in(world, other);
    return !other.is_untouched(rank);
  }));
}

// Where nobody has a plan yet, all ranks come to agree on one: what one refuses, all refuse, and may try again.
TEST(ProcessWorld, WhatOneRankRefusesInTheFirstCallAllRefuseAndMayTryAgain) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(3, [&](int rank) {
    World world = World::join(id, rank, 1, 3, {.timeout_ms = 10'000});
    OpLaunch launch(Op::kAgGemm, {1, 3}, {kShape});
    OpArgs bad = launch.args()[rank];
    if (rank == 2) bad.in[0].data = nullptr;
    const auto word = rank == 2 ? "a of rank 2" : "rank 2 refuses the call: a of rank 2";
    if (!refuses({word}, [&] { call(Op::kAgGemm, world, {&bad, 1}); })) return false;
    run_in(world, launch);
    return !launch.is_untouched(rank);
  }));
}

// Nobody tells how these end, so they must not count as right.
TEST(Processes, OfWhoseEndNothingIsKnownHaveFailed) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_FALSE(processes_do(2, [](int) { return true; }));
  std::signal(SIGCHLD, before);
}

TEST(ProcessWorld, ARankThatAsksForAnotherDeviceIsNamedToAll) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    const DeviceKind device = rank == 0 ? DeviceKind::kCpu : DeviceKind::kAuto;
    return static_cast<bool>(refuses({"device is auto on rank 1 and cpu on rank 0"},
                                     [&] { World::join(id, rank, 1, 2, device, {.timeout_ms = 10'000}); }));
  }));
}

TEST(ProcessWorld, ARankThatDiesInALaunchIsReportedByTheOthersInTime) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(3, [&](int rank) {
    World world = World::join(id, rank, 1, 3, {.timeout_ms = 3000});
    OpLaunch launch(Op::kAgGemm, {1, 3}, {kShape});
    run_in(world, launch);
    world.state().exchange("", "the first launch of all");  // who dies earlier may fail that one
    if (rank == 2) _exit(0);
    const auto start = std::chrono::steady_clock::now();
    const bool told = static_cast<bool>(
        throws(ErrorCode::kFabric, {"rank 2 is gone: its process ended"}, [&] { run_in(world, launch); }));
    // By the connection that ended with it, not by the deadline.
    return told && std::chrono::steady_clock::now() - start < std::chrono::seconds(2);
  }));
}

TEST(ProcessWorld, ARankThatAbortsTellsAllOthersWhy) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(3, [&](int rank) {
    World world = World::join(id, rank, 1, 3, {.timeout_ms = 20'000});
    OpLaunch launch(Op::kAgGemm, {1, 3}, {kShape});
    run_in(world, launch);
    world.state().exchange("", "the first launch of all");
    const auto start = std::chrono::steady_clock::now();
    if (rank == 1) world.abort("its data is bad");
    const ErrorCode code = rank == 1 ? ErrorCode::kAborted : ErrorCode::kFabric;
    const auto told = throws(code, {"rank 1 was aborted: its data is bad"}, [&] { run_in(world, launch); });
    if (!told) std::fprintf(stderr, "rank %d: %s\n", rank, told.message());
    return told && std::chrono::steady_clock::now() - start < std::chrono::seconds(5);
  }));
}

// Over the network: the ranks of its rail say who is gone, and every rank fails in time.
TEST(ProcessWorld, ARankOfAnotherNodeThatDiesIsNamedByItsRail) {
  for (const char* net : {"shm", "tcp"}) {
    const std::string id = World::unique_id();
    EXPECT_TRUE(processes_do(2, [&](int rank) {
      Options options{.timeout_ms = 20'000};
      options.net = net;
      World world = World::join(id, rank, 2, 1, options);
      OpLaunch launch(Op::kAgGemm, {2, 1}, {kShape});
      run_in(world, launch);
      world.state().exchange("", "the first launch of both");  // who dies earlier may fail that one
      if (rank == 1) _exit(0);
      const auto start = std::chrono::steady_clock::now();
      return throws(ErrorCode::kFabric, {"rank 1"}, [&] { run_in(world, launch); }) &&
             std::chrono::steady_clock::now() - start < std::chrono::seconds(10);
    })) << net;
  }
}

// mpirun continues a stopped rank before it ends it: what rank 0 then says of others must not hide that it was stopped.
TEST(ProcessWorld, ARankZeroThatWasStoppedAndGoesOnSaysSo) {
  constexpr std::chrono::milliseconds kTimeout{2000};
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t root = fork();
  if (root == 0) {
    close(ends[1]);
    std::vector<Fd> members(2);
    members[1] = Fd(ends[0]);
    const Star star(0, 2, std::move(members), kTimeout);
    for (;;) pause();
  }
  close(ends[0]);
  std::vector<Fd> to_root;
  to_root.emplace_back(ends[1]);
  Star star(1, 2, std::move(to_root), kTimeout);
  std::this_thread::sleep_for(beat_of(kTimeout));  // the other is at its beats by now
  kill(root, SIGSTOP);
  std::this_thread::sleep_for(5 * beat_of(kTimeout));  // as long as it is stopped, it is silent
  kill(root, SIGCONT);
  std::this_thread::sleep_for(beat_of(kTimeout));
  EXPECT_NE(star.report("waited in vain").find("rank 0 did not run for"), std::string::npos) << star.failure();
  kill(root, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(root, &status, 0), root);
}

TEST(ProcessWorld, ArgumentsAreForTheRanksThatAreHere) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    World world = World::join(id, rank, 1, 2, {.timeout_ms = 10'000});
    OpLaunch launch(Op::kAgGemm, {1, 2}, {kShape});
    const std::vector<OpArgs> args = launch.args();
    return world.first_rank() == rank && world.num_ranks() == 1 &&
           refuses({"args has 2 entries", "1 ranks of the world are here"}, [&] { call(Op::kAgGemm, world, args); });
  }));
}

TEST(ProcessWorld, AnIdOfNobodyIsRefused) {
  EXPECT_TRUE(refuses({"unique id"}, [] { World::join("hello", 1, 1, 2); }));
  EXPECT_TRUE(refuses({"id was not made by this process"}, [] { World::join("hello", 0, 1, 2); }));
}

// Its peers are at the plan's windows already, and must not take what it does next for those.
TEST(ProcessWorld, ARankWithoutMemoryForAPlanFailsAndTheOthersSeeItLeave) {
  class PoorDevice : public runtime::HostDevice {
   public:
    explicit PoorDevice(int rank) : HostDevice({rank, 1}, Windows::kShared), is_poor_(rank == 1) {}
    runtime::WindowMemory allocate_window(size_t bytes) override {
      if (is_poor_) throw Error(ErrorCode::kDevice, "out of memory");
      return HostDevice::allocate_window(bytes);
    }

   private:
    bool is_poor_;
  };
  auto rendezvous = std::make_unique<Rendezvous>();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    constexpr std::chrono::seconds kTimeout{20};
    auto bootstrap = rank == 0 ? std::make_unique<Bootstrap>(std::move(rendezvous), 2, kTimeout)
                               : std::make_unique<Bootstrap>(rendezvous->id(), rank, 2, kTimeout);
    World world(std::make_unique<runtime::WorldState>(WorldShape{1, 2}, std::move(bootstrap),
                                                      std::make_unique<PoorDevice>(rank), Options{}));
    OpLaunch launch(Op::kAgGemm, {1, 2}, {kShape});
    const auto call = [&] { enqueue(world, launch); };
    const bool told = static_cast<bool>(rank == 1 ? throws(ErrorCode::kDevice, {"out of memory"}, call)
                                                  : throws(ErrorCode::kFabric, {"rank 1 failed: out of memory"}, call));
    return told && world.failed();
  }));
}

}  // namespace
}  // namespace mk::test
