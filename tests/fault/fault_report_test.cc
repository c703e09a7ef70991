// SPDX-License-Identifier: MIT
// tests/fault/fault_report_test.cc — fault records in words a user can act on.
#include "runtime/fault_report.h"

#include <gtest/gtest.h>

namespace mk::test {
namespace {

using runtime::describe_fault;
using runtime::describe_faults;

std::string namer(const FaultRecord& record) { return "signal_" + std::to_string(record.signal); }

FaultRecord fault(FaultKind kind, int rank, Role role) {
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
  EXPECT_EQ(describe_fault(fault(FaultKind::kSignal, 6, Role::kCompute), 200, namer),
            "rank 6 compute 2 waited 200 ms for signal_5 to reach 4 (it holds 3), launch 7, tile 11");
}

TEST(FaultReport, CommunicationRolesNameAChunk) {
  EXPECT_NE(describe_fault(fault(FaultKind::kSignal, 6, Role::kIntra), 200, namer).find("chunk 11"), std::string::npos);
}

TEST(FaultReport, AWorkerWithNothingInHandNamesNoTile) {
  FaultRecord record = fault(FaultKind::kUnsettled, 6, Role::kSend);
  record.tile = -1;
  const std::string text = describe_fault(record, 200, namer);
  EXPECT_EQ(text.find("tile"), std::string::npos) << text;
  EXPECT_EQ(text.find("chunk"), std::string::npos) << text;
}

TEST(FaultReport, SaysWhenItWasTheRingOrThePutsAndNotASignalEvenOfAWorkerThatWasStopped) {
  const auto told = [](FaultKind kind, uint32_t awaited) {
    FaultRecord record = fault(kind, 6, Role::kSend);
    record.signal = awaited;
    return describe_fault(record, 200, namer);
  };
  for (const FaultKind kind : {FaultKind::kRingFull, FaultKind::kStopped}) {
    EXPECT_NE(told(kind, kRingRoom).find("for room in the command ring"), std::string::npos) << told(kind, kRingRoom);
  }
  for (const FaultKind kind : {FaultKind::kUnsettled, FaultKind::kStopped}) {
    EXPECT_NE(told(kind, kPutsDone).find("for its puts to complete"), std::string::npos) << told(kind, kPutsDone);
  }
}

TEST(FaultReport, WhoTimedOutComesBeforeWhoWasStopped) {
  const std::string text = describe_faults(
      {fault(FaultKind::kStopped, 0, Role::kIntra), fault(FaultKind::kSignal, 1, Role::kCompute)}, 200, namer);
  EXPECT_EQ(text.rfind("rank 1 compute", 0), 0u) << text;
}

TEST(FaultReport, CommunicationComesBeforeCompute) {
  const std::string text = describe_faults(
      {fault(FaultKind::kSignal, 0, Role::kCompute), fault(FaultKind::kSignal, 1, Role::kIntra)}, 200, namer);
  EXPECT_EQ(text.rfind("rank 1 intra", 0), 0u) << text;
}

TEST(FaultReport, CountsWhoElseGaveUpAndWhere) {
  const std::string text =
      describe_faults({fault(FaultKind::kSignal, 4, Role::kCompute), fault(FaultKind::kStopped, 1, Role::kIntra),
                       fault(FaultKind::kStopped, 4, Role::kIntra)},
                      200, namer);
  EXPECT_NE(text.find("3 workers gave up, on ranks 1, 4"), std::string::npos) << text;
}

}  // namespace
}  // namespace mk::test
