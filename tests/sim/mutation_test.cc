// SPDX-License-Identifier: MIT
// tests/sim/mutation_test.cc — the simulator bites: every planted bug is found within 200 seeds.
//
// Each row prints the bug, how it was reported and the seeds it took; docs/simulation.md holds the table.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "ops/ag_gemm/ag_gemm_fuzz.h"
#include "tests/sim/mutants.h"

namespace mk::test {
namespace {

using ag_gemm_op::FuzzRun;
using ag_gemm_op::Layout;

constexpr uint64_t kMostSeeds = 200;

struct Bug {
  const char* name;
  const char* reported_as;  // the kinds allowed for the first complaint
  std::function<void(FuzzRun&)> run;
};

template <class M>
std::function<void(FuzzRun&)> on() {
  return [](FuzzRun& run) { run.run<M>(); };
}

void without_column_tails(FuzzRun& run) {
  Layout floored = run.layout();
  floored.col_blocks = static_cast<int>(floored.n / floored.tile_n);
  if (floored.col_blocks > 0) run.run(floored);
}

const Bug kBugs[] = {
    {"DropsASignal", "deadlock", on<DropsASignal>()},
    {"DropsAPut", "deadlock", on<DropsAPut>()},
    {"SignalsBeforeData", "visibility", on<SignalsBeforeData>()},
    {"PutsBeforeStaging", "visibility", on<PutsBeforeStaging>()},
    {"SkipsHandBack", "visibility balance", on<SkipsHandBack>()},
    {"WaitsForTheEpochBefore", "visibility balance", on<WaitsForTheEpochBefore>()},
    {"NeverLeavesTheFirstEpoch", "visibility balance", on<NeverLeavesTheFirstEpoch>()},
    {"TellsTheWrongPeer", "rule visibility deadlock balance", on<TellsTheWrongPeer>()},
    {"WaitsBeforeItAnnounces", "deadlock", on<WaitsBeforeItAnnounces>()},
    {"ForwardQuitsEarly", "deadlock", on<ForwardQuitsEarly>()},
    {"SignalsTwice", "visibility balance", on<SignalsTwice>()},
    {"ReusesRingSlotsTooSoon", "deadlock visibility", on<ReusesRingSlotsTooSoon>()},
    {"PutsCarryTheWrongSignal", "rule deadlock visibility balance", on<PutsCarryTheWrongSignal>()},
    {"DoesNotSettle", "visibility", on<DoesNotSettle>()},
    {"ComputesWithoutWaiting", "visibility balance", on<ComputesWithoutWaiting>()},
    {"ForwardsWithoutWaiting", "visibility", on<ForwardsWithoutWaiting>()},
    {"CopiesAcrossNodes", "rule", on<CopiesAcrossNodes>()},
    {"PutsOffItsRail", "rule", on<PutsOffItsRail>()},
    {"PutsFromTheInput", "rule", on<PutsFromTheInput>()},
    {"CopiesToTheWrongPlace", "visibility", on<CopiesToTheWrongPlace>()},
    {"ForgetsTailTiles", "result balance", without_column_tails},
};

class Mutations : public testing::TestWithParam<Bug> {};

TEST_P(Mutations, IsFoundWithinTwoHundredSeeds) {
  const Bug& bug = GetParam();
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    FuzzRun run(seed, {});
    bug.run(run);
    if (!run.core().stopped()) continue;
    const sim::Complaint& complaint = run.core().complaints().front();
    EXPECT_NE(std::string(bug.reported_as).find(complaint.kind), std::string::npos) << complaint.text;
    fmt::print("| {} | {}: {} | {} |\n", bug.name, complaint.kind, complaint.text.substr(0, complaint.text.find('\n')),
               seed);
    return;
  }
  FAIL() << bug.name << " passed " << kMostSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, Mutations, testing::ValuesIn(kBugs), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mk::test
