// SPDX-License-Identifier: MIT
// tests/fault/no_thread_test.cc — a machine that has no thread left: the Error says for whom, what for and why.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

std::atomic<int> threads_left = -1;  // negative: as many as there are

// So many threads can still be started, until it goes out of scope.
class FewThreads {
 public:
  explicit FewThreads(int left) { threads_left = left; }
  FewThreads(const FewThreads&) = delete;
  ~FewThreads() { threads_left = -1; }
};

}  // namespace
}  // namespace mk::test

// In place of the C library's, for this program.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  std::atomic<int>& left = mk::test::threads_left;
  if (left == 0) return EAGAIN;
  if (left > 0) --left;
  return create(thread, attributes, start, argument);
}

namespace mk::test {
namespace {

constexpr WorldShape kWorld{1, 4};
constexpr Shape kShape{67, 129, 3};
constexpr const char* kReason = "Resource temporarily unavailable";

TEST(NoThread, ForAWorkerIsAnErrorOfTheLaunchAndTheReasonOfAllCallsAfterIt) {
  World world = World::local(kWorld.nodes, kWorld.ranks, DeviceKind::kCpu, {.timeout_ms = 20'000});
  OpLaunch launch(Op::kAgGemm, kWorld, {kShape});
  {
    const FewThreads few(8);  // rank 0 has 5 or more workers, and more than 8 are needed for all
    EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot start a thread for worker ", " of rank ", kReason},
                       [&] { enqueue(world, launch); }));
  }
  EXPECT_TRUE(world.failed());
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot start a thread for worker ", " of rank ", kReason},
                     [&] { world.synchronize(); }));
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"this World has failed", "cannot start a thread for worker "},
                     [&] { enqueue(world, launch); }));
}

TEST(NoThread, ForTheFirstWorkerNamesItsRank) {
  World world = World::local(1, 1, DeviceKind::kCpu, {.timeout_ms = 20'000});
  OpLaunch launch(Op::kAgGemm, {1, 1}, {kShape});
  const FewThreads none(0);
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot start a thread for worker 0 of rank 0", kReason, "ulimit -u"},
                     [&] { enqueue(world, launch); }));
}

TEST(NoThread, ForAProxyIsAnErrorOfTheWorld) {
  const FewThreads few(2);
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot start a thread for the proxy of rank 2", kReason},
                     [] { World::local(2, 2, DeviceKind::kCpu); }));
}

// Those that could start wait for the others in vain, which is not what is to be told.
TEST(NoThread, ToConnectAFabricIsToldAndNotWhoWaitsForIt) {
  Options options{.timeout_ms = 300};
  options.net = "tcp";
  const FewThreads few(1);
  EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot start a thread for rank 1 to connect its fabric", kReason},
                     [&] { World::local(2, 1, DeviceKind::kCpu, options); }));
}

TEST(NoThread, LeavesNextWorldsAsGoodAsEver) {
  {
    const FewThreads few(1);
    EXPECT_TRUE(throws(ErrorCode::kDevice, {"cannot start a thread"}, [] { World::local(2, 2, DeviceKind::kCpu); }));
  }
  World world = World::local(kWorld.nodes, kWorld.ranks, DeviceKind::kCpu);
  OpLaunch launch(Op::kAgGemm, kWorld, {kShape});
  enqueue(world, launch);
  world.synchronize();
  EXPECT_TRUE(launch.is_right());
}

}  // namespace
}  // namespace mk::test
