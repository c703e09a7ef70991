// SPDX-License-Identifier: MIT
// tests/race/world_threads_test.cc — several threads call one World: calls follow each other, looks and aborts do not
// wait.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/expect_error.h"
#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

using std::chrono::seconds;

constexpr int kThreads = 4;

class WorldThreads : public testing::TestWithParam<WorldShape> {
 protected:
  World world = World::local(GetParam().nodes, GetParam().ranks, DeviceKind::kCpu);

  // Runs body(thread) in each of them; the first that says so has failed.
  static testing::AssertionResult all_say_right(const std::function<testing::AssertionResult(int)>& body) {
    std::vector<testing::AssertionResult> results(kThreads, testing::AssertionSuccess());
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { results[i] = body(i); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) {
      if (!result) return result;
    }
    return testing::AssertionSuccess();
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, WorldThreads, testing::Values(WorldShape{1, 1}, WorldShape{1, 4}, WorldShape{2, 2}),
                         [](const auto& info) { return name_of(info.param); });

// Shapes that nobody has a plan for, while others launch and wait.
TEST_P(WorldThreads, ShapesOfTheirOwnAreRight) {
  EXPECT_TRUE(all_say_right([&](int thread) {
    const Op op = kOps[thread % std::size(kOps)];
    for (int i = 1; i <= 3; ++i) {
      const auto right = runs_right(world, op, {8 * i, 3 + thread, 5}, {.launches = 3, .seed = uint64_t(thread)});
      if (!right) return right;
    }
    return testing::AssertionSuccess();
  }));
}

TEST_P(WorldThreads, TheSameShapeIsRight) {
  EXPECT_TRUE(all_say_right([&](int thread) {
    return runs_right(world, Op::kAgGemm, {24, 7, 5}, {.launches = 10, .seed = uint64_t(thread)});
  }));
}

// One waits, looks and makes mistakes, and the others launch.
TEST_P(WorldThreads, WhoWaitsAndWhoIsRefusedDoesNotDisturbOthers) {
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    while (!is_over) {
      world.synchronize();
      EXPECT_FALSE(world.failed());
      EXPECT_NO_THROW(world.check());
      EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"args has 0 entries"}, [&] { ag_gemm(world, {}); }));
    }
  });
  EXPECT_TRUE(all_say_right([&](int thread) {
    return runs_right(world, Op::kGemmRs, {24, 7 + thread, 5}, {.launches = 10, .seed = uint64_t(thread)});
  }));
  is_over = true;
  other.join();
}

// A launch that waits for a rank which never comes, with the usual deadline.
class HangingWorld : public testing::Test {
 protected:
  OpLaunch launch{Op::kAgGemm, {1, 2}, {{8, 3, 5}}};
  World world = World::local(1, 2, DeviceKind::kCpu);  // goes first: its workers write to the launch

  void launch_one_rank() { launch_rank(world.state(), plan_of(world.state(), launch), launch, 1); }
};

TEST_F(HangingWorld, CanBeLookedAtWithoutAWait) {
  launch_one_rank();
  std::thread waits([&] { EXPECT_TRUE(throws(ErrorCode::kAborted, {}, [&] { world.synchronize(); })); });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NO_THROW(world.check());
  EXPECT_FALSE(world.failed());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  world.abort("it has been seen");
  waits.join();
}

TEST_F(HangingWorld, IsEndedByAnAbortFromAnotherThread) {
  launch_one_rank();
  const auto begin = std::chrono::steady_clock::now();
  std::thread aborts([&] { world.abort("the user has no patience"); });
  EXPECT_TRUE(
      throws(ErrorCode::kAborted, {"the World was aborted: the user has no patience"}, [&] { world.synchronize(); }));
  aborts.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
  EXPECT_TRUE(world.failed());
  EXPECT_TRUE(throws(ErrorCode::kAborted, {"the user has no patience"}, [&] { world.check(); }));
  EXPECT_TRUE(
      throws(ErrorCode::kAborted, {"make a new one", "the user has no patience"}, [&] { enqueue(world, launch); }));
  world.abort("somebody else");  // the first reason stays
  EXPECT_TRUE(throws(ErrorCode::kAborted, {"the user has no patience"}, [&] { world.check(); }));
}

TEST(WorldCheck, ThrowsTheFirstFaultOnceAWaitHasGivenUp) {
  OpLaunch launch{Op::kAgGemm, {1, 2}, {{8, 3, 5}}};
  World world = World::local(1, 2, DeviceKind::kCpu, {.timeout_ms = 100});
  launch_rank(world.state(), plan_of(world.state(), launch), launch, 1);
  EXPECT_TRUE(eventually([&] { return world.failed(); }));
  EXPECT_TRUE(eventually([&] {
    return throws(ErrorCode::kTimeout, {"rank 1 ", "waited 100 ms"}, [&] { world.check(); });
  }));
  EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank 1 ", "waited 100 ms"}, [&] { world.synchronize(); }));
}

}  // namespace
}  // namespace mk::test
