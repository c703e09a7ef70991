// SPDX-License-Identifier: MIT
// tests/support/ag_gemm_reference.h — what is right in AllGather+GEMM.
//
// The reference is computed in double from the inputs as they are stored.  Exact data are whole numbers
// in [-4, 4]: every sum, with its bias, is a small whole number, exact in fp32, so without an activation the
// result must be that number rounded once.  Uniform data lie in [-1, 1); the bound is derived in `tolerance`.
#pragma once

#include "tests/support/op_table.h"

namespace mk::test {

testing::AssertionResult judge_ag_gemm(const LaunchData& launch);

}  // namespace mk::test
