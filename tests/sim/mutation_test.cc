// SPDX-License-Identifier: MIT
// tests/sim/mutation_test.cc — the simulator bites: every planted bug is found within 200 seeds.
//
// Each row prints the bug, how it was reported and the seeds it took; docs/simulation.md holds the table.
#include <gtest/gtest.h>

#include "ops/ag_gemm/ag_gemm_fuzz.h"
#include "tests/sim/bug.h"
#include "tests/sim/mutants.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

using ag_gemm_op::FuzzRun;
using ag_gemm_op::Layout;

template <class M>
Bug on(const char* name, const char* reported_as) {
  return bug_of<FuzzRun>(name, reported_as, [](FuzzRun& run) { run.run<M>(); });
}

void without_column_tails(FuzzRun& run) {
  Layout floored = run.layout();
  floored.col_blocks = static_cast<int>(floored.n / floored.tile_n);
  if (floored.col_blocks > 0) run.run(floored);
}

const Bug kBugs[] = {
    on<DropsASignal>("DropsASignal", "deadlock"),
    on<DropsAPut>("DropsAPut", "deadlock"),
    on<SignalsBeforeData>("SignalsBeforeData", "visibility"),
    on<PutsBeforeStaging>("PutsBeforeStaging", "visibility"),
    on<SkipsHandBack>("SkipsHandBack", "visibility balance"),
    on<WaitsForTheEpochBefore>("WaitsForTheEpochBefore", "visibility balance"),
    on<NeverLeavesTheFirstEpoch>("NeverLeavesTheFirstEpoch", "visibility balance"),
    on<TellsTheWrongPeer>("TellsTheWrongPeer", "rule visibility deadlock balance"),
    on<WaitsBeforeItAnnounces>("WaitsBeforeItAnnounces", "deadlock"),
    on<PassingOnQuitsEarly>("PassingOnQuitsEarly", "deadlock"),
    on<SignalsTwice>("SignalsTwice", "visibility balance"),
    on<ReusesRingSlotsTooSoon>("ReusesRingSlotsTooSoon", "deadlock visibility"),
    on<PutsCarryTheWrongSignal>("PutsCarryTheWrongSignal", "rule deadlock visibility balance"),
    on<DoesNotSettle>("DoesNotSettle", "visibility"),
    on<ComputesWithoutWaiting>("ComputesWithoutWaiting", "visibility balance"),
    on<PassesOnWithoutWaiting>("PassesOnWithoutWaiting", "visibility"),
    on<CopiesAcrossNodes>("CopiesAcrossNodes", "rule"),
    on<PutsOffItsRail>("PutsOffItsRail", "rule"),
    on<PutsFromTheInput>("PutsFromTheInput", "rule"),
    on<CopiesToTheWrongPlace>("CopiesToTheWrongPlace", "visibility"),
    bug_of<FuzzRun>("ForgetsTailTiles", "result balance", without_column_tails),
};

class Mutations : public testing::TestWithParam<Bug> {};

TEST_P(Mutations, IsFoundWithinTwoHundredSeeds) { expect_found(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, Mutations, testing::ValuesIn(kBugs), case_name<testing::TestParamInfo<Bug>>);

}  // namespace
}  // namespace mk::test
