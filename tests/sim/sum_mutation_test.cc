// SPDX-License-Identifier: MIT
// tests/sim/sum_mutation_test.cc — every bug planted in an operator that sums over ranks is found within 200 seeds.
#include <gtest/gtest.h>

#include <vector>

#include "ops/gemm_ar/gemm_ar_fuzz.h"
#include "ops/gemm_rs/gemm_rs_fuzz.h"
#include "tests/sim/bug.h"
#include "tests/sim/sum_mutants.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

dense::TileImage& image_of(gemm_rs_op::Layout& layout) { return layout.shard; }
dense::TileImage& image_of(gemm_ar_op::OneShotLayout& layout) { return layout.whole; }

template <class Run>
void without_column_tails(Run& run) {
  auto floored = run.layout();
  dense::TileImage& image = image_of(floored);
  image.col_blocks = static_cast<int>(image.cols / image.tile_n);
  if (image.col_blocks > 0) run.run(floored);
}

// The bugs that every one of these operators can have.
template <class Run>
std::vector<Bug> bugs_of(const std::string& op) {
  std::vector<Bug> bugs;
  const auto on = [&]<class M>(const char* name, const char* reported_as, std::type_identity<M>) {
    bugs.push_back(bug_of<Run>(op + "_" + name, reported_as, [](Run& run) { run.template run<M>(); }));
  };
  on("DropsASignal", "deadlock", std::type_identity<DropsASignal>{});
  on("DropsAPut", "deadlock", std::type_identity<DropsAPut>{});
  on("SignalsBeforeStores", "visibility", std::type_identity<SignalsBeforeStores>{});
  on("PutsBeforeStores", "visibility", std::type_identity<PutsBeforeStores>{});
  on("SkipsHandBack", "visibility balance", std::type_identity<SkipsHandBack>{});
  on("NeverSaysReady", "deadlock", std::type_identity<NeverSaysReady>{});
  on("NeverSaysReadyToRails", "deadlock", std::type_identity<NeverSaysReadyToRails>{});
  on("WaitsForTheEpochBefore", "visibility balance", std::type_identity<WaitsForTheEpochBefore>{});
  on("NeverLeavesTheFirstEpoch", "visibility balance", std::type_identity<NeverLeavesTheFirstEpoch>{});
  on("TellsTheWrongPeer", "rule visibility deadlock balance", std::type_identity<TellsTheWrongPeer>{});
  on("WaitsBeforeItAnnounces", "deadlock", std::type_identity<WaitsBeforeItAnnounces>{});
  on("SignalsTwice", "visibility balance", std::type_identity<SignalsTwice>{});
  on("ReusesRingSlotsTooSoon", "deadlock visibility", std::type_identity<ReusesRingSlotsTooSoon>{});
  on("PutsCarryTheWrongSignal", "rule deadlock visibility balance", std::type_identity<PutsCarryTheWrongSignal>{});
  // Who has gathered what others made of its puts knows that they have landed.
  if (op != "gemm_ar") on("DoesNotSettle", "visibility", std::type_identity<DoesNotSettle>{});
  on("ReducesWithoutWaiting", "visibility balance", std::type_identity<ReducesWithoutWaiting>{});
  on("ReducesTooEarly", "visibility balance", std::type_identity<ReducesTooEarly>{});
  on("ReduceQuitsEarly", "deadlock balance result", std::type_identity<ReduceQuitsEarly>{});
  on("StoresAcrossNodes", "rule", std::type_identity<StoresAcrossNodes>{});
  on("StoresToTheWrongPlace", "visibility", std::type_identity<StoresToTheWrongPlace>{});
  on("LoadsAcrossNodes", "rule", std::type_identity<LoadsAcrossNodes>{});
  on("LoadsFromANeighbour", "visibility", std::type_identity<LoadsFromANeighbour>{});
  on("PutsOffItsRail", "rule", std::type_identity<PutsOffItsRail>{});
  on("PutsFromTheInput", "rule", std::type_identity<PutsFromTheInput>{});
  bugs.push_back(bug_of<Run>(op + "_ForgetsTailTiles", "result balance", without_column_tails<Run>));
  return bugs;
}

// What only the second shot can get wrong.
std::vector<Bug> gather_bugs() {
  using Run = gemm_ar_op::TwoShotRun;
  return {
      bug_of<Run>("GathersWithoutWaiting", "visibility balance", [](Run& run) { run.run<GathersWithoutWaiting>(); }),
      bug_of<Run>("GatherQuitsEarly", "balance result deadlock", [](Run& run) { run.run<GatherQuitsEarly>(); }),
      bug_of<Run>("HoldersKeepSilent", "deadlock", [](Run& run) { run.run<HoldersKeepSilent>(); }),
  };
}

class SumMutations : public testing::TestWithParam<Bug> {};

TEST_P(SumMutations, IsFoundWithinTwoHundredSeeds) { expect_found(GetParam()); }

INSTANTIATE_TEST_SUITE_P(TwoShots, SumMutations, testing::ValuesIn(bugs_of<gemm_ar_op::TwoShotRun>("gemm_ar")),
                         case_name<testing::TestParamInfo<Bug>>);
INSTANTIATE_TEST_SUITE_P(Gather, SumMutations, testing::ValuesIn(gather_bugs()),
                         case_name<testing::TestParamInfo<Bug>>);
INSTANTIATE_TEST_SUITE_P(OneShot, SumMutations, testing::ValuesIn(bugs_of<gemm_ar_op::OneShotRun>("gemm_ar_one_shot")),
                         case_name<testing::TestParamInfo<Bug>>);
INSTANTIATE_TEST_SUITE_P(GemmRs, SumMutations, testing::ValuesIn(bugs_of<gemm_rs_op::FuzzRun>("gemm_rs")),
                         case_name<testing::TestParamInfo<Bug>>);

}  // namespace
}  // namespace mk::test
