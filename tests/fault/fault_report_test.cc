// SPDX-License-Identifier: MIT
// tests/fault/fault_report_test.cc — fault records in words a user can act on.
#include "runtime/fault_report.h"

#include <gtest/gtest.h>

namespace mk::test {
namespace {

using runtime::describe_fault;
using runtime::describe_faults;

constexpr RoleName kRoles[] = {{"intra", "chunk"}, {"send", "chunk"}, {"compute", "tile"}};
enum : int { kIntra, kSend, kCompute };

const Names kNames{kRoles, [](uint32_t signal) { return "signal_" + std::to_string(signal); }};
const Names& names_of(const FaultRecord&) { return kNames; }

FaultRecord fault(FaultKind kind, int rank, int role) {
  return {.kind = kind,
          .rank = rank,
          .role = role,
          .worker = 2,
          .signal = 5,
          .tile = 11,
          .seen = 3,
          .wanted = 4,
          .epoch = 7,
          .sealed = 1};
}

TEST(FaultReport, NamesRankRoleWorkerTileSignalSeenAndWanted) {
  EXPECT_EQ(describe_fault(fault(FaultKind::kSignal, 6, kCompute), 200, kNames),
            "rank 6 compute 2 waited 200 ms for signal_5 to reach 4 (it holds 3), launch 7, tile 11");
}

TEST(FaultReport, CommunicationRolesNameAChunk) {
  EXPECT_NE(describe_fault(fault(FaultKind::kSignal, 6, kIntra), 200, kNames).find("chunk 11"), std::string::npos);
}

TEST(FaultReport, AWorkerWithNothingInHandNamesNoTile) {
  FaultRecord record = fault(FaultKind::kUnsettled, 6, kSend);
  record.tile = -1;
  const std::string text = describe_fault(record, 200, kNames);
  EXPECT_EQ(text.find("tile"), std::string::npos) << text;
  EXPECT_EQ(text.find("chunk"), std::string::npos) << text;
}

TEST(FaultReport, SaysWhenItWasTheRingOrThePutsAndNotASignalEvenOfAWorkerThatWasStopped) {
  const auto told = [](FaultKind kind, uint32_t awaited) {
    FaultRecord record = fault(kind, 6, kSend);
    record.signal = awaited;
    return describe_fault(record, 200, kNames);
  };
  for (const FaultKind kind : {FaultKind::kRingFull, FaultKind::kStopped}) {
    EXPECT_NE(told(kind, kRingRoom).find("for room in the command ring"), std::string::npos) << told(kind, kRingRoom);
  }
  for (const FaultKind kind : {FaultKind::kUnsettled, FaultKind::kStopped}) {
    EXPECT_NE(told(kind, kPutsDone).find("for its puts to complete"), std::string::npos) << told(kind, kPutsDone);
  }
}

TEST(FaultReport, WhoTimedOutComesBeforeWhoWasStopped) {
  const std::string text =
      describe_faults({fault(FaultKind::kStopped, 0, kIntra), fault(FaultKind::kSignal, 1, kCompute)}, 200, names_of);
  EXPECT_EQ(text.rfind("rank 1 compute", 0), 0u) << text;
}

TEST(FaultReport, CommunicationComesBeforeCompute) {
  const std::string text =
      describe_faults({fault(FaultKind::kSignal, 0, kCompute), fault(FaultKind::kSignal, 1, kIntra)}, 200, names_of);
  EXPECT_EQ(text.rfind("rank 1 intra", 0), 0u) << text;
}

// Whoever waits for its own rank waits because of another wait there.
TEST(FaultReport, WhoWaitedForAnotherRankComesBeforeWhoWaitedInsideItsOwn) {
  Names names = kNames;
  names.is_inner = [](uint32_t signal) { return signal == 9; };
  FaultRecord inside = fault(FaultKind::kSignal, 0, kIntra);
  inside.signal = 9;
  const std::string text = describe_faults({inside, fault(FaultKind::kStopped, 1, kCompute)}, 200,
                                           [&](const FaultRecord&) -> const Names& { return names; });
  EXPECT_EQ(text.rfind("rank 1 compute", 0), 0u) << text;
}

TEST(FaultReport, CountsWhoElseGaveUpAndWhere) {
  const std::string text =
      describe_faults({fault(FaultKind::kSignal, 4, kCompute), fault(FaultKind::kStopped, 1, kIntra),
                       fault(FaultKind::kStopped, 4, kIntra)},
                      200, names_of);
  EXPECT_NE(text.find("3 workers gave up, on ranks 1, 4"), std::string::npos) << text;
}

TEST(FaultReport, AWorkerWithTwoRecordsIsOneWorker) {
  const FaultRecord load = fault(FaultKind::kSignal, 4, kCompute);
  FaultRecord store = load;
  store.tile = 3;
  EXPECT_EQ(describe_faults({load, store}, 200, names_of).find("gave up"), std::string::npos);
  const std::string text = describe_faults({load, store, fault(FaultKind::kStopped, 1, kIntra)}, 200, names_of);
  EXPECT_NE(text.find("2 workers gave up, on ranks 1, 4"), std::string::npos) << text;
}

}  // namespace
}  // namespace mk::test
