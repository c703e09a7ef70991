// SPDX-License-Identifier: MIT
// tests/support/launching.h — what tests of all operators do: fill inputs, queue launches, wait, check each.
//
// A Launch holds the inputs and outputs of one launch and knows what is right; enqueue(world, launch,
// split) queues it.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "mkernel/world.h"
#include "runtime/world_state.h"
#include "tests/support/matrix.h"
#include "tests/support/worlds.h"

namespace mk::test {

// Exact data are whole numbers in [-4, 4], so that sums of products are exact in fp32; uniform data lie in
// [-1, 1).
enum class Data { kExact, kUniform };

// "gemm_rs_2x3_bf16": the names of a tuple's members, for INSTANTIATE_TEST_SUITE_P.
struct JoinedNames {
  template <class Info>
  std::string operator()(const Info& info) const {
    std::string names;
    const auto append = [&](const std::string& name) { names += (names.empty() ? "" : "_") + name; };
    std::apply([&](const auto&... member) { (append(name_of(member)), ...); }, info.param);
    return names;
  }
};
inline constexpr JoinedNames joined_names;

void fill(Matrix& matrix, Data data, std::mt19937_64& random);

// A World as users have it, and one built around a hooked fabric, finish alike.
void finish(World& world);
void finish(runtime::WorldState& world);
WorldShape shape_of(const World& world);
WorldShape shape_of(const runtime::WorldState& world);

// Queues make(0) … make(count-1) back to back, waits once, and checks every one.
template <class Launch, class AnyWorld, class Make>
testing::AssertionResult all_run_right(AnyWorld& world, int count, const Split& split, Make&& make) {
  std::vector<Launch> launches;
  for (int i = 0; i < count; ++i) {
    launches.push_back(make(i));
    enqueue(world, launches.back(), split);
  }
  finish(world);
  for (size_t i = 0; i < launches.size(); ++i) {
    if (auto right = launches[i].is_right(); !right) {
      return right << " (" << name_of(shape_of(world)) << ", launch " << i + 1 << ")";
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace mk::test
