// SPDX-License-Identifier: MIT
// tests/support/sum_reference.h — what is right in operators that sum products over ranks.
//
// The reference follows the arithmetic that gemm_args.h promises, with roundings of its own
// (tests/support/rounding.h): partial results in double, rounded; node sums in float, in the order of the
// ranks, rounded where they leave their node (in one shot everywhere); node after node.  Exact data make every partial
// result exact before it is rounded, so the outputs must have those very bits.  For uniform data the reference is the
// exact sum, and the bound is derived in `tolerance`.
#pragma once

#include "tests/support/op_table.h"

namespace mk::test {

// Who has the sum: the owner of a row, which keeps its own node's sum unrounded; everybody, as the owner made it;
// everybody, each for itself, so that no node may keep what others get rounded.
enum class SumKeeper { kOwner, kAll, kEach };

testing::AssertionResult judge_sum(const LaunchData& launch, SumKeeper keeper, const char* name);

}  // namespace mk::test
