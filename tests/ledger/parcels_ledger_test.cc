// SPDX-License-Identifier: MIT
// tests/ledger/parcels_ledger_test.cc — values, stamps and thresholds on the ledger, and what it says when one is
// wrong.
#include <gtest/gtest.h>

#include "ops/account.h"
#include "tests/support/parcels_data.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

using ledger::LedgerMachine;

// A machine that does one thing wrong.
struct StampsForTheLaunchBefore : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void stamp(const Signal& signal, uint64_t stamp) { LedgerMachine::stamp(signal, stamp - (uint64_t{1} << 32)); }
  bool put(Put put, int64_t subject) {
    if (put.stamp != 0) put.stamp -= uint64_t{1} << 32;
    return LedgerMachine::put(put, subject);
  }
};
struct AwaitsALaterStamp : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) {
    return LedgerMachine::wait_stamp(signal, stamp + 1, subject);
  }
};
struct WritesAWrongValue : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void write(const Place& to, uint32_t value) { LedgerMachine::write(to, value + 1); }
};
struct AwaitsTooMuchCredit : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool wait_some(uint32_t signal, uint64_t wanted, int64_t subject) {
    return LedgerMachine::wait_some(signal, wanted + parcels::kMost + 1, subject);
  }
};
struct AwaitsTheCreditOfTheLaunchBefore : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  bool wait_some(uint32_t signal, uint64_t wanted, int64_t subject) {
    return LedgerMachine::wait_some(signal, wanted < parcels::kMost ? wanted : wanted - parcels::kMost, subject);
  }
};
struct AddsWhereItStamps : LedgerMachine {
  using LedgerMachine::LedgerMachine;
  void stamp(const Signal& signal, uint64_t stamp) {
    LedgerMachine::stamp(signal, stamp);
    LedgerMachine::add(signal, 1);
  }
};

template <class M>
std::vector<std::string> complaints_of(const parcels::Layout& layout, uint64_t seed, int launches = 4) {
  const parcels::Data data(layout.world, seed);
  ledger::Ledger ledger(layout.world, [&](uint64_t epoch, const Place& place) { return data.value(epoch, place); });
  account_with(
      ledger, layout.world, layout.roles, launches,
      [&](int rank, uint64_t epoch) { return M(ledger, layout.world, rank, epoch); },
      [&](auto& machine, const Post& post) { parcels::work(machine, layout, post); });
  return ledger.complaints();
}

TEST(ParcelsLedger, BalancesInEveryWorldWithEverySplit) {
  for (const WorldShape& world : kWorlds) {
    for (const auto& [count, send, receive] : {std::tuple{1, 1, 1}, std::tuple{2, 1, 3}, std::tuple{1, 4, 2}}) {
      for (uint64_t seed = 0; seed < 5; ++seed) {
        const auto complaints = complaints_of<LedgerMachine>(parcels::layout_of(world, count, send, receive), seed);
        EXPECT_TRUE(complaints.empty()) << name_of(world) << ": " << complaints.front();
      }
    }
  }
}

template <class M>
testing::AssertionResult is_found(const std::string& words) {
  const auto complaints = complaints_of<M>(parcels::layout_of({2, 3}, 1, 1, 2), 1);
  for (const std::string& complaint : complaints) {
    if (complaint.find(words) != std::string::npos) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << complaints.size() << " complaints, none with '" << words << "'";
}

TEST(ParcelsLedger, FindsWhatIsWrong) {
  EXPECT_TRUE(is_found<StampsForTheLaunchBefore>("for launch 0"));
  EXPECT_TRUE(is_found<AwaitsALaterStamp>("awaits stamp"));
  EXPECT_TRUE(is_found<WritesAWrongValue>("belongs"));
  EXPECT_TRUE(is_found<AwaitsTooMuchCredit>("somebody awaits"));
  EXPECT_TRUE(is_found<AwaitsTheCreditOfTheLaunchBefore>("which earlier launches paid"));
  EXPECT_TRUE(is_found<AddsWhereItStamps>("is stamped and added to"));
}

class LedgerThreshold : public testing::Test {
 protected:
  ledger::Ledger ledger{WorldShape{2, 2}};

  bool says(const std::string& words) const {
    for (const std::string& complaint : ledger.complaints()) {
      if (complaint.find(words) != std::string::npos) return true;
    }
    return false;
  }
};

TEST_F(LedgerThreshold, OfOneWorkersPaymentsIsFine) {
  ledger.begin(1, 0);
  for (int i = 0; i < 5; ++i) ledger.pay(1, {0, 0}, 1);
  ledger.await_some(0, 0, 3);
  ledger.close_launch(1);
  EXPECT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
}

TEST_F(LedgerThreshold, OfSeveralWorkersPaymentsIsNot) {
  ledger.begin(1, 0);
  ledger.pay(1, {0, 0}, 1);
  ledger.begin(1, 1);
  ledger.pay(1, {0, 0}, 1);
  ledger.await_some(0, 0, 1);
  ledger.close_launch(1);
  EXPECT_TRUE(says("which several workers pay"));
}

TEST_F(LedgerThreshold, OfPutsWithBytesIsNot) {
  ledger.begin(2, 0);
  const Place from{kFirstOperatorWindow, 2, 0};
  for (int i = 0; i < 2; ++i) ledger.pay_by_put(2, {from, {kFirstOperatorWindow, 0, 0}, 8, {0, 0}}, 1);
  ledger.await_some(0, 0, 1);
  ledger.close_launch(1);
  EXPECT_TRUE(says("in any order"));
}

TEST_F(LedgerThreshold, AStampThatDoesNotGrowIsFound) {
  ledger.stamp_in_node(1, {0, 0}, stamp_of(1, 4), 1);
  ledger.stamp_in_node(1, {0, 0}, stamp_of(1, 3), 1);
  EXPECT_TRUE(says("which holds"));
}

TEST_F(LedgerThreshold, StampsOfTwoRanksAreFound) {
  ledger.stamp_in_node(1, {0, 0}, stamp_of(1, 1), 1);
  ledger.stamp_in_node(0, {0, 0}, stamp_of(1, 2), 1);
  EXPECT_TRUE(says("both stamp"));
}

TEST_F(LedgerThreshold, StampsOfTwoWorkersOfARankAreFound) {
  ledger.begin(1, 0);
  ledger.stamp_in_node(1, {0, 0}, stamp_of(1, 1), 1);
  ledger.begin(1, 1);
  ledger.stamp_in_node(1, {0, 0}, stamp_of(1, 2), 1);
  EXPECT_TRUE(says("two workers of rank 1 stamp"));
}

TEST_F(LedgerThreshold, AnotherWorkerMayStampInTheNextLaunch) {
  ledger.begin(1, 0);
  ledger.stamp_in_node(1, {0, 0}, stamp_of(1, 1), 1);
  ledger.close_launch(1);
  ledger.begin(1, 1);
  ledger.stamp_in_node(1, {0, 0}, stamp_of(2, 1), 2);
  ledger.close_launch(2);
  EXPECT_TRUE(ledger.complaints().empty()) << ledger.complaints().front();
}

TEST_F(LedgerThreshold, AValueThatNobodyKnowsIsFound) {
  ledger.read(0, 1, {kFirstOperatorWindow, 0, 0});
  EXPECT_TRUE(says("no oracle"));
}

}  // namespace
}  // namespace mk::test
