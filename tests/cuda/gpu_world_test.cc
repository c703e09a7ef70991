// SPDX-License-Identifier: MIT
// tests/cuda/gpu_world_test.cc — Worlds on a Hopper GPU: many launches, many Worlds, full ones, every split.
#include <gtest/gtest.h>

#include "tests/cuda/gpu_launch.h"

namespace mk::test {
namespace {

TEST(GpuWorld, AThousandLaunchesBackToBackAreAllRight) {
  MK_NEEDS_GPU();
  World world = World::local(2, 2, DeviceKind::kCuda, {.timeout_ms = 5000});
  EXPECT_TRUE(gpu_runs_right(world, {40, 136, 72}, DType::kBf16, 1000));
}

// In 2x1 no worker leaves before the network has delivered, if every compute worker has a remote tile,
// and the two ranks fill every SM: a put that needed one would never start.
TEST(GpuWorld, PutsNeedNoSm) {
  MK_NEEDS_GPU();
  World world = World::local(2, 1, DeviceKind::kCuda, {.timeout_ms = 5000});
  EXPECT_TRUE(gpu_runs_right(world, {4100, 264, 264}, DType::kBf16, 1));
}

TEST(GpuWorld, TwentyFullWorldsOneAfterTheOtherNeverHang) {
  MK_NEEDS_GPU();
  for (int i = 0; i < 20; ++i) {
    World world = World::local(2, 8, DeviceKind::kCuda, {.timeout_ms = 2000});
    ASSERT_TRUE(gpu_runs_right(world, {9, 24, 16}, DType::kFp16, 3, i)) << "world " << i;
  }
}

TEST(GpuWorld, TwoShapesMayAlternateInOneWorld) {
  MK_NEEDS_GPU();
  World world = World::local(2, 2, DeviceKind::kCuda, {.timeout_ms = 5000});
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(gpu_runs_right(world, {40, 136, 72}, DType::kBf16, 3, 10 + round));
    EXPECT_TRUE(gpu_runs_right(world, {130, 264, 136}, DType::kFp16, 3, 20 + round));
  }
}

TEST(GpuWorld, EverySplitGivesTheSameResult) {
  MK_NEEDS_GPU();
  World world = World::local(2, 2, DeviceKind::kCuda, {.timeout_ms = 5000});
  for (const Split& split :
       {Split{{"compute", 1}, {"intra", 1}, {"send", 1}}, Split{{"compute", 3}, {"intra", 5}, {"send", 2}},
        Split{{"compute", 20}, {"intra", 10}, {"send", 3}}, Split{{"compute", 1}, {"send", 1}},
        Split{{"compute", 32}, {"send", 2}}}) {
    EXPECT_TRUE(gpu_runs_right(world, {300, 264, 136}, DType::kBf16, 3, 1, split));
  }
  World node = World::local(1, 4, DeviceKind::kCuda, {.timeout_ms = 5000});
  for (const Split& split : {Split{}, Split{{"compute", 1}}, Split{{"compute", 33}},
                             Split{{"compute", 1}, {"intra", 1}}, Split{{"compute", 31}, {"intra", 11}}}) {
    EXPECT_TRUE(gpu_runs_right(node, {300, 264, 136}, DType::kBf16, 3, 1, split));
  }
}

}  // namespace
}  // namespace mk::test
