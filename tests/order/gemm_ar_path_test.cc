// SPDX-License-Identifier: MIT
// tests/order/gemm_ar_path_test.cc — which path GEMM+AllReduce takes, as a pure function of the problem.
#include <gtest/gtest.h>

#include "ops/gemm_ar/gemm_ar_problem.h"

namespace mk::test {
namespace {

using gemm_ar_op::chooses_one_shot;
using gemm_ar_op::path_for;

struct PathCase {
  WorldShape world;
  int64_t m;
  int64_t n;
  DType dtype;
  bool one_shot;
};

constexpr PathCase kCases[] = {
    {{1, 8}, 8, 8192, DType::kBf16, true},      // a token a rank
    {{1, 8}, 32, 8192, DType::kBf16, true},     // 512 KiB
    {{1, 8}, 40, 8192, DType::kBf16, false},    // past it
    {{1, 8}, 32, 8192, DType::kFp32, false},    // the same elements, twice the bytes
    {{1, 8}, 256, 1024, DType::kBf16, true},    // 256 rows
    {{1, 8}, 264, 512, DType::kBf16, false},    // more, and the world divides them
    {{1, 8}, 257, 512, DType::kBf16, true},     // more, and it does not
    {{2, 8}, 8, 512, DType::kBf16, true},       // fewer rows than ranks
    {{1, 8}, 1001, 8192, DType::kBf16, false},  // too large for one shot: refused, unless it is asked for
    {{1, 1}, 1, 1, DType::kFp16, true},        {{2, 8}, 16384, 8192, DType::kBf16, false},
};

TEST(AllReducePath, FollowsFromRowsAndBytes) {
  for (const PathCase& at : kCases) {
    const gemm::Problem problem{at.world, at.m, at.n, 64, at.dtype};
    EXPECT_EQ(chooses_one_shot(problem), at.one_shot) << at.m << "x" << at.n;
    const AllReducePath chosen = at.one_shot ? AllReducePath::kOneShot : AllReducePath::kTwoShot;
    EXPECT_EQ(path_for(problem, AllReducePath::kAuto), chosen);
  }
}

TEST(AllReducePath, IsTheCallersIfTheCallerSaysSo) {
  for (const PathCase& at : kCases) {
    const gemm::Problem problem{at.world, at.m, at.n, 64, at.dtype};
    EXPECT_EQ(path_for(problem, AllReducePath::kOneShot), AllReducePath::kOneShot);
    EXPECT_EQ(path_for(problem, AllReducePath::kTwoShot), AllReducePath::kTwoShot);
  }
}

// Nothing overflows on the way to the check that refuses them.
TEST(AllReducePath, HasAnAnswerForSizesThatWillBeRefused) {
  for (const int64_t m : {int64_t{-5}, int64_t{0}, INT64_MAX, INT64_MIN}) {
    for (const int64_t n : {int64_t{-5}, int64_t{0}, INT64_MAX, INT64_MIN}) {
      const gemm::Problem problem{{2, 2}, m, n, 1, DType::kFp32};
      EXPECT_NE(path_for(problem, AllReducePath::kAuto), AllReducePath::kAuto);
    }
  }
}

}  // namespace
}  // namespace mk::test
