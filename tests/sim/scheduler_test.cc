// SPDX-License-Identifier: MIT
// tests/sim/scheduler_test.cc — virtual time and fibres.
#include "target/sim/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace mk::sim {
namespace {

TEST(Scheduler, FibresRunInOrderOfVirtualTime) {
  Random random(1);
  Scheduler scheduler(random);
  std::string order;
  scheduler.spawn([&] { scheduler.sleep(30), order += 'c'; });
  scheduler.spawn([&] { scheduler.sleep(10), order += 'a', scheduler.sleep(30), order += 'd'; });
  scheduler.spawn([&] { scheduler.sleep(20), order += 'b'; });
  scheduler.run();
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(scheduler.now(), 40u);
}

TEST(Scheduler, AParkedFibreGoesOnOnlyWhenUnparked) {
  Random random(1);
  Scheduler scheduler(random);
  bool went_on = false;
  const int parked = scheduler.spawn([&] { scheduler.park(), went_on = true; });
  scheduler.run();
  EXPECT_FALSE(went_on);
  scheduler.unpark(parked, 5);
  scheduler.run();
  EXPECT_TRUE(went_on);
}

TEST(Scheduler, WhatAFibreThrowsComesOutOfItsRun) {
  Random random(1);
  bool unwound = false;
  {
    Scheduler scheduler(random);
    scheduler.spawn([&] {
      const std::shared_ptr<void> mark(nullptr, [&](void*) { unwound = true; });
      scheduler.park();
    });
    scheduler.spawn([&] { scheduler.sleep(10), throw std::bad_alloc(); });
    EXPECT_THROW(scheduler.run(), std::bad_alloc);
    EXPECT_FALSE(unwound);
  }
  EXPECT_TRUE(unwound);  // the fibre that was parked
}

TEST(Scheduler, TheSeedDecidesWhoGoesFirstAmongEquals) {
  const auto order_of = [](uint64_t seed) {
    Random random(seed);
    Scheduler scheduler(random);
    std::vector<int> order;
    for (int i = 0; i < 8; ++i) scheduler.spawn([&order, i] { order.push_back(i); });
    scheduler.run();
    return order;
  };
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
}

TEST(Scheduler, AFibreMayStartOthersAndCallsRunBetweenThem) {
  Random random(1);
  Scheduler scheduler(random);
  int sum = 0;
  scheduler.spawn([&] {
    for (int i = 1; i <= 100; ++i) {
      scheduler.spawn([&, i] { scheduler.sleep(i), sum += i; });
      scheduler.call_after(1000, [&] { ++sum; });
    }
  });
  scheduler.run();
  EXPECT_EQ(sum, 5050 + 100);
}

TEST(Scheduler, AnExceptionThatLeavesAFibreLeavesRun) {
  for (const auto stacks : {Scheduler::Stacks::kGuarded, Scheduler::Stacks::kPlain}) {
    Random random(1);
    Scheduler scheduler(random, stacks);
    for (int i = 0; i < 10; ++i) scheduler.spawn([&] { scheduler.park(); });
    scheduler.spawn([&] {
      scheduler.sleep(5);
      throw std::bad_alloc();
    });
    EXPECT_THROW(scheduler.run(), std::bad_alloc);
    scheduler.run();  // the others are still there
  }
}

TEST(Scheduler, AnExceptionThatLeavesACallLeavesRun) {
  Random random(1);
  Scheduler scheduler(random);
  scheduler.call_after(5, [held = std::vector<int>(100)] { throw std::bad_alloc(); });
  EXPECT_THROW(scheduler.run(), std::bad_alloc);
}

TEST(Scheduler, TimeEndsWithAnExceptionRatherThanWrap) {
  Random random(1);
  Scheduler scheduler(random);
  scheduler.spawn([&] {
    scheduler.sleep(kEndOfTime - 1);
    scheduler.sleep(1);
  });
  EXPECT_THROW(scheduler.run(), std::overflow_error);
  EXPECT_EQ(scheduler.now(), kEndOfTime - 1);
}

}  // namespace
}  // namespace mk::sim
