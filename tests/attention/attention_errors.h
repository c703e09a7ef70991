// SPDX-License-Identifier: MIT
// tests/attention/attention_errors.h — how far results are from fp64, beside attention that is computed step by step in
// the element type: every product, weight and sum is rounded before the next step, as frameworks do without a fused
// kernel.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/attention/attention_backward_data.h"

namespace mk::test {

// What both passes left at one rank.
struct AttentionResults {
  HeadValues o, dq, dk, dv;
};

// The greatest error of each result, over all ranks, is at most twice that of the steps.  For cases without sinks.
testing::AssertionResult errors_are_at_most_twice_those_of_steps(const AttentionCase& at,
                                                                 const AttentionBackwardData& data,
                                                                 const std::vector<AttentionResults>& ranks);

}  // namespace mk::test
