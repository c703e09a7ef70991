// SPDX-License-Identifier: MIT
// tests/fault/machine_fault_test.cc — what a CPU worker leaves behind when a wait ends badly.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "runtime/fault_report.h"
#include "tests/support/bare_plan.h"

namespace mk::test {
namespace {

constexpr int64_t kChunk = 17;
constexpr Put kPut{{kFirstOperatorWindow, 1, 0}, {kFirstOperatorWindow, 3, 0}, 8, {3, 0}};

class MachineFault : public testing::Test {
 protected:
  static constexpr int kRank = 1;
  static constexpr int kRole = 1;
  static constexpr int kWorker = 2;  // its number in the rank

  // The second send worker of rank 1, with a deadline short enough to wait for.
  BarePlan plan{{.world = {2, 2}, .workers = 4, .timeout_ns = 20'000'000, .ring_capacity = 2}};
  cpu::CpuMachine worker{plan.view(kRank), Post{kRole, 1, 2}, kWorker, false};

  FaultRecord only_fault() const {
    const std::vector<FaultRecord> faults = plan.plan().faults();
    EXPECT_EQ(faults.size(), 1u);
    return faults.empty() ? FaultRecord{} : faults.front();
  }
  bool stopped() { return HostAtomics::load_acquire(plan.stop()) != 0; }
};

TEST_F(MachineFault, ASignalThatDoesNotComeIsRecordedWithWhoAndWhat) {
  worker.add({kRank, 3}, 4);
  EXPECT_FALSE(worker.wait(3, 9, kChunk));
  const FaultRecord fault = only_fault();
  EXPECT_EQ(fault.kind, FaultKind::kSignal);
  EXPECT_EQ(fault.rank, kRank);
  EXPECT_EQ(fault.role, kRole);
  EXPECT_EQ(fault.worker, 1);
  EXPECT_EQ(fault.signal, 3u);
  EXPECT_EQ(fault.tile, kChunk);
  EXPECT_EQ(fault.seen, 4u);
  EXPECT_EQ(fault.wanted, 9u);
  EXPECT_EQ(fault.epoch, 1u);
}

TEST_F(MachineFault, EachPartOfAWorkerHasARecordOfItsOwn) {
  const RankView& view = plan.view(kRank);
  for (int number = 0; number < view.workers; ++number) {
    for (int part = 0; part < kRecordsPerWorker; ++part) {
      FaultRecord& record = view.fault_record(number, part);
      record.worker = number;
      record.tile = part;
      HostAtomics::store_release(&record.sealed, 1);
    }
  }
  const std::vector<FaultRecord> faults = plan.plan().faults();
  ASSERT_EQ(faults.size(), static_cast<size_t>(view.workers * kRecordsPerWorker));
  for (size_t i = 0; i < faults.size(); ++i) {
    EXPECT_EQ(faults[i].worker, static_cast<int>(i) / kRecordsPerWorker);
    EXPECT_EQ(faults[i].tile, static_cast<int>(i) % kRecordsPerWorker);
  }
}

TEST_F(MachineFault, ARefusalIsNoFaultIsTakenOnceAndDoesNotHideAFault) {
  worker.refuse(7, kChunk, 12, 10);
  worker.refuse(8, kChunk, 13, 10);
  EXPECT_FALSE(stopped());
  EXPECT_TRUE(plan.plan().faults().empty());
  EXPECT_FALSE(worker.wait(3, 9, kChunk));
  EXPECT_EQ(only_fault().kind, FaultKind::kSignal);
  const std::vector<FaultRecord> refused = plan.plan().take_refusals();
  ASSERT_EQ(refused.size(), 1u) << "the first is the one to tell";
  EXPECT_EQ(refused[0].signal, 7u);
  EXPECT_EQ(refused[0].tile, kChunk);
  EXPECT_EQ(refused[0].seen, 12u);
  EXPECT_EQ(refused[0].wanted, 10u);
  EXPECT_TRUE(plan.plan().take_refusals().empty());
}

TEST_F(MachineFault, AListIsReadWithAnyStride) {
  for (int i = 0; i < 4; ++i) plan.window<uint32_t>(kRank)[3 * i] = 100 + i;
  const ValueList list = worker.read_list({kFirstOperatorWindow, kRank, 0}, 4, 12);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(list[i], 100u + i);
}

TEST_F(MachineFault, AFullRingIsRecordedWithTheChunkInHand) {
  EXPECT_TRUE(worker.put(kPut, kChunk));
  EXPECT_TRUE(worker.put(kPut, kChunk));
  EXPECT_FALSE(worker.put(kPut, kChunk)) << "the ring holds two and nobody takes them";
  EXPECT_EQ(only_fault().kind, FaultKind::kRingFull);
  EXPECT_EQ(only_fault().tile, kChunk);
  EXPECT_EQ(only_fault().seen, 0u);
  EXPECT_EQ(only_fault().wanted, 1u);
}

TEST_F(MachineFault, PutsThatDoNotCompleteAreRecorded) {
  EXPECT_TRUE(worker.put(kPut, kChunk));
  EXPECT_FALSE(worker.settle());
  EXPECT_EQ(only_fault().kind, FaultKind::kUnsettled);
  EXPECT_EQ(only_fault().seen, 0u);
  EXPECT_EQ(only_fault().wanted, 1u);
}

TEST_F(MachineFault, AWorkerWithNoPutsIsSettled) { EXPECT_TRUE(worker.settle()); }

TEST_F(MachineFault, ATimeoutRaisesTheStopWord) {
  EXPECT_FALSE(stopped());
  EXPECT_FALSE(worker.wait(0, 1, kChunk));
  EXPECT_TRUE(stopped());
}

TEST_F(MachineFault, AWaitThatPassesLeavesNothingBehind) {
  worker.add({kRank, 0}, 1);
  EXPECT_TRUE(worker.wait(0, 1, kChunk));
  EXPECT_TRUE(plan.plan().faults().empty());
  EXPECT_FALSE(stopped());
}

TEST_F(MachineFault, AWaiterThatIsStoppedSaysSoAndWhatItWaitedFor) {
  BarePlan patient({.world = {2, 2}, .workers = 4});
  cpu::CpuMachine waiter(patient.view(kRank), Post{kRole, 0, 1}, 3, false);
  std::thread stopper([&] { HostAtomics::store_release(patient.stop(), 1); });
  EXPECT_FALSE(waiter.wait(2, 5, kChunk)) << "its own deadline is far away";
  stopper.join();
  ASSERT_EQ(patient.plan().faults().size(), 1u);
  const FaultRecord fault = patient.plan().faults().front();
  EXPECT_EQ(fault.kind, FaultKind::kStopped);
  EXPECT_EQ(fault.signal, 2u);
  EXPECT_EQ(fault.wanted, 5u);
}

// What the record says of itself, in the user's words.
std::string told(const FaultRecord& fault) {
  static constexpr RoleName kRoles[] = {{"intra", "chunk"}, {"send", "chunk"}};
  return runtime::describe_fault(fault, 20, {kRoles, [](uint32_t) { return "a signal"; }});
}

TEST_F(MachineFault, AWorkerStoppedWhileItsPutsGoOutDoesNotBlameASignal) {
  EXPECT_TRUE(worker.put(kPut, kChunk));
  HostAtomics::store_release(plan.stop(), 1);
  EXPECT_FALSE(worker.settle());
  EXPECT_NE(told(only_fault()).find("its puts to complete"), std::string::npos) << told(only_fault());
}

TEST_F(MachineFault, AWorkerStoppedAtAFullRingDoesNotBlameASignal) {
  EXPECT_TRUE(worker.put(kPut, kChunk));
  EXPECT_TRUE(worker.put(kPut, kChunk));
  HostAtomics::store_release(plan.stop(), 1);
  EXPECT_FALSE(worker.put(kPut, kChunk));
  EXPECT_NE(told(only_fault()).find("room in the command ring"), std::string::npos) << told(only_fault());
}

// Work that is already there is not thrown away: only a wait that would block gives up.
TEST_F(MachineFault, AStoppedWorkerStillPassesAWaitThatIsPaid) {
  HostAtomics::store_release(plan.stop(), 1);
  worker.add({kRank, 0}, 1);
  EXPECT_TRUE(worker.wait(0, 1, kChunk));
}

// A worker of a queued launch finds the stop word raised; the record of the launch that failed must survive it.
TEST_F(MachineFault, TheFirstRecordOfAWorkerIsTheOneThatStays) {
  EXPECT_FALSE(worker.wait(3, 9, kChunk));
  EXPECT_FALSE(worker.wait(2, 7, kChunk + 1));
  const FaultRecord fault = only_fault();
  EXPECT_EQ(fault.kind, FaultKind::kSignal);
  EXPECT_EQ(fault.signal, 3u);
  EXPECT_EQ(fault.wanted, 9u);
}

}  // namespace
}  // namespace mk::test
