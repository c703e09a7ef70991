// SPDX-License-Identifier: MIT
// tests/fault/no_memory_test.cc — a worker that cannot allocate: an Error that says so, never the end of the process.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support/expect_error.h"
#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

std::atomic<bool> is_scarce = false;
std::atomic<int> allocations_left = 0;
std::atomic<pthread_t> has_plenty{};  // the thread that made memory scarce

// Other threads than this one can allocate so often, until it goes out of scope.
class LittleMemory {
 public:
  explicit LittleMemory(int left) {
    has_plenty = pthread_self();
    allocations_left = left;
    is_scarce = true;
  }
  LittleMemory(const LittleMemory&) = delete;
  ~LittleMemory() { is_scarce = false; }
};

bool may_allocate() {
  if (!is_scarce || pthread_equal(has_plenty, pthread_self())) return true;
  return allocations_left.fetch_sub(1) > 0;
}

}  // namespace
}  // namespace mk::test

// In place of the standard library's, for this program.
void* operator new(size_t bytes) {
  void* const memory = mk::test::may_allocate() ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace mk::test {
namespace {

constexpr WorldShape kWorld{1, 2};
constexpr Shape kShape{67, 129, 3};

TEST(NoMemory, ForAWorkerIsAnErrorThatNamesItAndTheNextWorldIsAsGoodAsEver) {
  for (int left = 0; left < 4; ++left) {
    World world = World::local(kWorld.nodes, kWorld.ranks, DeviceKind::kCpu, {.timeout_ms = 20'000});
    OpLaunch launch(Op::kAgGemm, kWorld, {kShape});
    {
      const LittleMemory little(left);
      EXPECT_TRUE(throws(ErrorCode::kTimeout, {"rank ", "compute ", "ran out of memory, launch 1"}, [&] {
        enqueue(world, launch);
        world.synchronize();
      })) << left;
    }
    EXPECT_TRUE(world.failed());
  }
  World world = World::local(kWorld.nodes, kWorld.ranks, DeviceKind::kCpu);
  OpLaunch launch(Op::kAgGemm, kWorld, {kShape});
  enqueue(world, launch);
  world.synchronize();
  EXPECT_TRUE(launch.is_right());
}

}  // namespace
}  // namespace mk::test
