// SPDX-License-Identifier: MIT
// tests/support/ag_gemm_launch.h — one launch of AllGather+GEMM with inputs of its own, and its check.
//
// The reference is computed in double from the inputs as they are stored.  Exact data are whole numbers
// in [-4, 4]: every sum, with its bias, is a small whole number, exact in fp32, so without an activation the
// result must be that number rounded once.  Uniform data lie in [-1, 1); the bound is derived in `tolerance`.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mkernel/mkernel.h"
#include "tests/support/launching.h"
#include "tests/support/matrix.h"
#include "tests/support/worlds.h"

namespace mk::test {

// What else a call may ask for.
struct GemmForm {
  BOrder b_order = BOrder::kKN;
  Activation activation = Activation::kNone;
  bool has_bias = false;
};

// Both orders; with bias and without; every activation, with bias and without.
inline constexpr std::array<GemmForm, 7> kGemmForms = {{{BOrder::kNK},
                                                        {BOrder::kKN, Activation::kNone, true},
                                                        {BOrder::kNK, Activation::kNone, true},
                                                        {BOrder::kKN, Activation::kGelu},
                                                        {BOrder::kNK, Activation::kGelu, true},
                                                        {BOrder::kKN, Activation::kSilu, true},
                                                        {BOrder::kNK, Activation::kSilu}}};

// "NK_bias_GELU"
std::string name_of(const GemmForm& form);

class AgGemmLaunch {
 public:
  AgGemmLaunch(const WorldShape& world, const Shape& shape, DType dtype, uint64_t seed, Data data = Data::kExact,
               const GemmForm& form = {});

  // One per rank; outputs are poisoned.
  std::vector<AgGemmArgs> args();

  // Names the first element that is wrong.
  testing::AssertionResult is_right() const;

  // True if no element of the rank's output was written.
  bool is_untouched(int rank) const;

 private:
  testing::AssertionResult row_is_right(int rank, int64_t row, const float* a, const std::vector<float>& b) const;
  bool is_exact() const { return data_ == Data::kExact && form_.activation == Activation::kNone; }

  WorldShape world_;
  Shape shape_;
  DType dtype_;
  Data data_;
  GemmForm form_;
  std::vector<Matrix> a_;  // of each rank
  std::vector<Matrix> b_;
  std::vector<Matrix> bias_;
  std::vector<Matrix> c_;
};

// A World as users have it, and one built around a hooked fabric, launch alike.
void enqueue(World& world, AgGemmLaunch& launch, const Split& split = {});
void enqueue(runtime::WorldState& world, AgGemmLaunch& launch, const Split& split = {});

struct RunOptions {
  DType dtype = DType::kFp32;
  int launches = 5;
  uint64_t seed = 1;
  Split split = {};
  Data data = Data::kExact;
  GemmForm form = {};
};

// Queues the launches back to back, waits once, and checks every one.
template <class AnyWorld>
testing::AssertionResult runs_right(AnyWorld& world, const Shape& shape, const RunOptions& options = {}) {
  return all_run_right<AgGemmLaunch>(world, options.launches, options.split,
                                     [&](int i) {
                                       return AgGemmLaunch(shape_of(world), shape, options.dtype,
                                                           seed_of(options.seed, i), options.data, options.form);
                                     })
         << ", " << name_of(shape);
}

}  // namespace mk::test
