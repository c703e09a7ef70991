// SPDX-License-Identifier: MIT
// tests/process/attention_process_test.cc — attention over many ranks between processes, over every fabric.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/attention/ring_attention_launch.h"
#include "tests/support/over_fabric.h"

namespace mk::test {
namespace {

// What one rank does; every process makes the data of all ranks.
bool attention_is_right(World& joined, const WorldShape& world, int seed) {
  AttentionCase at{.world = world, .shape = {2, 34, 4, 2, 8, DType::kFp32}};
  if (seed % 2 == 0) at.form = {{MaskKind::kCausal, 50}, SequenceOrder::kZigzag};
  const auto right = attends_right(joined, at, 5, seed);
  if (!right) std::fprintf(stderr, "%s\n", right.message());
  return static_cast<bool>(right);
}

class AttentionOver : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, AttentionOver, testing::Values("shm", "tcp", "verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AttentionOver, EveryElementIsRightWithEverySeed) { expect_right_over(GetParam(), attention_is_right); }

}  // namespace
}  // namespace mk::test
