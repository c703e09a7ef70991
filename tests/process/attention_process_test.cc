// SPDX-License-Identifier: MIT
// tests/process/attention_process_test.cc — attention over many ranks between processes, over every fabric.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/atomics.h"
#include "tests/attention/attention_backward_data.h"
#include "tests/attention/ring_attention_launch.h"
#include "tests/support/expect_error.h"
#include "tests/support/over_fabric.h"

namespace mk::test {
namespace {

AttentionCase case_of_seed(const WorldShape& world, int seed) {
  AttentionCase at{.world = world, .shape = {2, 34, 4, 2, 8, DType::kFp32}};
  if (seed % 2 == 0) at.form = {{MaskKind::kCausal, 50}, SequenceOrder::kZigzag};
  if (seed % 2 == 0) at.lie = HeadsLie::kMixed;  // other strides at each rank
  return at;
}

bool is_right_or_says(const testing::AssertionResult& right) {
  if (!right) std::fprintf(stderr, "%s\n", right.message());
  return static_cast<bool>(right);
}

// What one rank does; every process makes the data of all ranks.
bool attention_is_right(World& joined, const WorldShape& world, int seed) {
  return is_right_or_says(attends_right(joined, case_of_seed(world, seed), 5, seed));
}
bool gradients_are_right(World& joined, const WorldShape& world, int seed) {
  AttentionCase at = case_of_seed(world, seed);
  at.shape.rows = 18;
  at.sinks = Sinks::kGiven;
  return is_right_or_says(differentiates_right(joined, at, 5, seed));
}
// o and lse are those of a forward pass that nobody waits for in between.
bool both_passes_are_right(World& joined, const WorldShape& world, int seed) {
  AttentionCase at = case_of_seed(world, seed);
  at.shape.rows = 18;
  AttentionBackwardLaunch launch(joined, at, seed, 0, Outputs::kOfTheForwardPass);
  launch.enqueue(joined);
  joined.synchronize();
  return is_right_or_says(launch.is_right());
}

// Sequences that lie on several ranks, and ranks that have several.
bool packed_sequences_are_right(World& joined, const WorldShape& world, int seed) {
  AttentionCase at = case_of_seed(world, seed);
  at.shape.batch = 1;
  at.shape.rows = 18;
  at.form.packing = seed + 1;
  return is_right_or_says(attends_right(joined, at, 3, seed)) &&
         is_right_or_says(differentiates_right(joined, at, 3, seed));
}

class AttentionOver : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, AttentionOver, testing::Values("shm", "tcp", "verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AttentionOver, EveryElementIsRightWithEverySeed) { expect_right_over(GetParam(), attention_is_right); }
TEST_P(AttentionOver, EveryGradientIsRightWithEverySeed) { expect_right_over(GetParam(), gradients_are_right); }
TEST_P(AttentionOver, PackedSequencesAreRightWithEverySeed) {
  expect_right_over(GetParam(), packed_sequences_are_right);
}
TEST_P(AttentionOver, BothPassesAreRightWithEverySeed) { expect_right_over(GetParam(), both_passes_are_right); }

// The first rank that gives up says so; others may hear of it before their own deadline.
testing::AssertionResult tells_who_waited(World& joined) {
  try {
    joined.synchronize();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTimeout && error.code() != ErrorCode::kFabric) {
      return testing::AssertionFailure() << "the code is " << static_cast<int>(error.code()) << ": " << error.what();
    }
    return says(error, {"rank ", " waited ", " for ", "[", "to reach ", "launch 2"});
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

// Every rank has a plan after the first launch; the last rank does not make the second call.  Nobody leaves
// before all others have said what they waited for.
TEST_P(AttentionOver, ARankThatDoesNotCallTheBackwardPassIsReportedInTime) {
  const AttentionCase at{.world = {2, 2}, .shape = {1, 6, 2, 1, 4, DType::kFp32}};  // a full mask: all need all
  const int ranks = at.world.size();
  Options options{.timeout_ms = 2000};
  options.net = GetParam();
  setenv("MKERNEL_SOFT_NIC", "seed=1", 1);
  const std::string id = World::unique_id();
  const CommonMemory common(sizeof(uint64_t));
  auto* const have_told = reinterpret_cast<uint64_t*>(common.data());
  EXPECT_TRUE(processes_do(ranks, [&](int rank) {
    World joined = World::join(id, rank, at.world.nodes, at.world.ranks, options);
    if (!is_right_or_says(differentiates_right(joined, at, 1, 1))) return false;
    joined.state().exchange("", "the first launch of all");
    const auto stay_until_all_have_told = [&] {
      while (HostAtomics::load_acquire(have_told) < static_cast<uint64_t>(ranks - 1)) std::this_thread::yield();
      return true;
    };
    if (rank == ranks - 1) return stay_until_all_have_told();
    AttentionBackwardLaunch launch(joined, at, 1, 1);
    const auto begin = std::chrono::steady_clock::now();
    launch.enqueue(joined);
    const auto told = tells_who_waited(joined);
    HostAtomics::add_release(have_told, 1);
    const auto took = std::chrono::steady_clock::now() - begin;
    return stay_until_all_have_told() && is_right_or_says(told) && took < std::chrono::seconds(15);
  }));
}

}  // namespace
}  // namespace mk::test
