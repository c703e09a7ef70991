// SPDX-License-Identifier: MIT
// tests/ops/gemm_ar_rows_test.cc — what GEMM+AllReduce in one shot alone takes: any number of rows.
#include <gtest/gtest.h>

#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

class OneShot : public testing::TestWithParam<WorldShape> {};

INSTANTIATE_TEST_SUITE_P(Worlds, OneShot, testing::ValuesIn(kWorlds), case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(OneShot, TheWorldNeedNotDivideTheRows) {
  World world = World::local(GetParam().nodes, GetParam().ranks, DeviceKind::kCpu);
  EXPECT_TRUE(all_run_right(world, 4, [&](int i) {
    const OpCase at{.shape = {i < 2 ? 0 : 9, 65, 3}, .dtype = DType::kBf16, .more_rows = 1 + i};
    return OpLaunch(Op::kGemmArOneShot, GetParam(), at, i);
  }));
}

}  // namespace
}  // namespace mk::test
