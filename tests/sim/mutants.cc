// SPDX-License-Identifier: MIT
// tests/sim/mutants.cc — the list of bugs.
#include "tests/sim/mutants.h"

#include "tests/sim/op_runs.h"
#include "tests/sim/signal_mutants.h"
#include "tests/sim/store_mutants.h"

namespace mk::test {
namespace {

using Ops = std::vector<Op>;

const Ops kAll(kOps.begin(), kOps.end());
const Ops kGathers{Op::kAgGemm};                                // copies rows, and computes when they are there
const Ops kSums{Op::kGemmRs, Op::kGemmAr, Op::kGemmArOneShot};  // stores tiles, and reduces them
const Ops kTwoShots{Op::kGemmAr};                               // gathers what was reduced
const Ops kSettles{Op::kAgGemm, Op::kGemmRs, Op::kGemmArOneShot};

template <class M>
Bug on(const Ops& ops, const char* name, const char* reported_as) {
  return {name, reported_as, ops, [](OpRun& run) {
            run.run_on([](sim::SimWorld& world, sim::Worker& worker) { return std::make_unique<M>(world, worker); });
          }};
}

const Bug kBugs[] = {
    on<DropsASignal>(kAll, "DropsASignal", "deadlock"),
    on<DropsAPut>(kAll, "DropsAPut", "deadlock"),
    on<SignalsBeforeData>(kGathers, "SignalsBeforeData", "visibility"),
    on<PutsBeforeStaging>(kGathers, "PutsBeforeStaging", "visibility"),
    on<SignalsBeforeStores>(kSums, "SignalsBeforeStores", "visibility"),
    on<PutsBeforeStores>(kSums, "PutsBeforeStores", "visibility"),
    on<SkipsHandBack>(kAll, "SkipsHandBack", "visibility balance"),
    on<NeverSaysReady>(kAll, "NeverSaysReady", "deadlock"),
    on<NeverSaysReadyToRails>(kAll, "NeverSaysReadyToRails", "deadlock"),
    on<WaitsForTheEpochBefore>(kAll, "WaitsForTheEpochBefore", "visibility balance"),
    on<NeverLeavesTheFirstEpoch>(kAll, "NeverLeavesTheFirstEpoch", "visibility balance"),
    on<TellsTheWrongPeer>(kAll, "TellsTheWrongPeer", "rule visibility deadlock balance"),
    on<WaitsBeforeItAnnounces>(kAll, "WaitsBeforeItAnnounces", "deadlock"),
    on<SignalsTwice>(kAll, "SignalsTwice", "visibility balance"),
    on<ReusesRingSlotsTooSoon>(kAll, "ReusesRingSlotsTooSoon", "deadlock visibility"),
    on<PutsCarryTheWrongSignal>(kAll, "PutsCarryTheWrongSignal", "rule deadlock visibility balance"),
    // Not in two shots: who has gathered what others made of its puts knows that they have landed.
    on<DoesNotSettle>(kSettles, "DoesNotSettle", "visibility"),
    on<ComputesWithoutWaiting>(kGathers, "ComputesWithoutWaiting", "visibility balance"),
    on<PassesOnWithoutWaiting>(kGathers, "PassesOnWithoutWaiting", "visibility"),
    on<PassingOnQuitsEarly>(kGathers, "PassingOnQuitsEarly", "deadlock"),
    on<ReducesWithoutWaiting>(kSums, "ReducesWithoutWaiting", "visibility balance"),
    on<ReducesTooEarly>(kSums, "ReducesTooEarly", "visibility balance"),
    on<ReduceQuitsEarly>(kSums, "ReduceQuitsEarly", "deadlock balance result"),
    on<GathersWithoutWaiting>(kTwoShots, "GathersWithoutWaiting", "visibility balance"),
    on<GatherQuitsEarly>(kTwoShots, "GatherQuitsEarly", "balance result deadlock"),
    on<HoldersKeepSilent>(kTwoShots, "HoldersKeepSilent", "deadlock"),
    on<CopiesAcrossNodes>(kGathers, "CopiesAcrossNodes", "rule"),
    on<CopiesToTheWrongPlace>(kGathers, "CopiesToTheWrongPlace", "visibility"),
    on<StoresAcrossNodes>(kSums, "StoresAcrossNodes", "rule"),
    on<StoresToTheWrongPlace>(kSums, "StoresToTheWrongPlace", "visibility"),
    on<LoadsAcrossNodes>(kAll, "LoadsAcrossNodes", "rule"),
    on<LoadsFromANeighbour>(kAll, "LoadsFromANeighbour", "visibility"),
    on<PutsOffItsRail>(kAll, "PutsOffItsRail", "rule"),
    on<PutsFromTheInput>(kAll, "PutsFromTheInput", "rule"),
    {"ForgetsTailTiles", "result balance", kAll, [](OpRun& run) { run.run_without_column_tails(); }},
};

}  // namespace

std::span<const Bug> bugs() { return kBugs; }

}  // namespace mk::test
