// SPDX-License-Identifier: MIT
// tests/support/ag_gemm_launch.h — one launch of AllGather+GEMM with inputs of its own, and its check.
//
// The reference is computed in double from the inputs as they are stored.  Exact data are whole numbers
// in [-4, 4]: every sum is a small whole number, exact in fp32, so the result must be that number
// rounded once.  Uniform data lie in [-1, 1); the bound is derived in `tolerance`.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "mkernel/mkernel.h"
#include "runtime/world_state.h"
#include "tests/support/matrix.h"
#include "tests/support/worlds.h"

namespace mk::test {

enum class Data { kExact, kUniform };

class AgGemmLaunch {
 public:
  AgGemmLaunch(const WorldShape& world, const Shape& shape, DType dtype, uint64_t seed, Data data = Data::kExact);

  // One per rank; outputs are poisoned.
  std::vector<AgGemmArgs> args();

  // Names the first element that is wrong.
  testing::AssertionResult is_right() const;

  // True if no element of the rank's output was written.
  bool is_untouched(int rank) const;

 private:
  testing::AssertionResult row_is_right(int rank, int64_t row, const float* a, const std::vector<float>& b) const;

  WorldShape world_;
  Shape shape_;
  DType dtype_;
  Data data_;
  std::vector<Matrix> a_;  // of each rank
  std::vector<Matrix> b_;
  std::vector<Matrix> c_;
};

// A World as users have it, and one built around a hooked fabric, launch and finish alike.
void enqueue(World& world, AgGemmLaunch& launch, const Split& split = {});
void enqueue(runtime::WorldState& world, AgGemmLaunch& launch, const Split& split = {});
void finish(World& world);
void finish(runtime::WorldState& world);
WorldShape shape_of(const World& world);
WorldShape shape_of(const runtime::WorldState& world);

struct RunOptions {
  DType dtype = DType::kFp32;
  int launches = 5;
  uint64_t seed = 1;
  Split split = {};
  Data data = Data::kExact;
};

// Queues the launches back to back, waits once, and checks every one.
template <class AnyWorld>
testing::AssertionResult runs_right(AnyWorld& world, const Shape& shape, const RunOptions& options = {}) {
  std::vector<AgGemmLaunch> launches;
  for (int i = 0; i < options.launches; ++i) {
    launches.emplace_back(shape_of(world), shape, options.dtype, seed_of(options.seed, i), options.data);
    enqueue(world, launches.back(), options.split);
  }
  finish(world);
  for (size_t i = 0; i < launches.size(); ++i) {
    if (auto right = launches[i].is_right(); !right) {
      return right << " (" << name_of(shape_of(world)) << ", " << name_of(shape) << ", launch " << i + 1 << ")";
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace mk::test
