// SPDX-License-Identifier: MIT
// tests/ledger/ledger_rules_test.cc — what the ledger accepts and what it complains of, rule by rule.
#include <gtest/gtest.h>

#include "target/ledger/ledger.h"

namespace mk::test {
namespace {

// Ranks 0, 1 on one node and 2, 3 on the other; 0 and 2 share a rail.
class LedgerRules : public testing::Test {
 protected:
  static Put put(int from, int to, uint32_t signal) {
    return {{kFirstOperatorWindow, from, 0}, {kFirstOperatorWindow, to, 0}, 8, {to, signal}};
  }
  testing::AssertionResult complains_of(const std::string& words) const {
    for (const std::string& complaint : ledger.complaints()) {
      if (complaint.find(words) != std::string::npos) return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << ledger.complaints().size() << " complaints, none says: " << words;
  }
  ledger::Ledger ledger{WorldShape{2, 2}};
};

TEST_F(LedgerRules, AcceptsWhatIsPaidAndAwaitedOverSeveralLaunches) {
  for (uint64_t launch = 1; launch <= 3; ++launch) {
    ledger.pay(1, {0, 0}, 2);
    ledger.await(0, 0, 2 * launch);
    ledger.pay_by_put(0, put(0, 2, 1), 1);
    ledger.await(2, 1, launch);
    ledger.close_launch(launch);
  }
  EXPECT_TRUE(ledger.complaints().empty());
  EXPECT_EQ(ledger.num_signals(), 2u);
}

TEST_F(LedgerRules, ComplainsIfTooLittleIsPaid) {
  ledger.pay(1, {0, 0}, 1);
  ledger.await(0, 0, 2);
  ledger.close_launch(1);
  EXPECT_TRUE(complains_of("signal 0 of rank 0 holds 1, but 2 is awaited"));
}

TEST_F(LedgerRules, ComplainsIfTooMuchIsPaid) {
  ledger.pay(1, {0, 0}, 3);
  ledger.await(0, 0, 2);
  ledger.close_launch(1);
  EXPECT_TRUE(complains_of("signal 0 of rank 0 holds 3, but 2 is awaited"));
}

TEST_F(LedgerRules, ComplainsIfOneOfManyAwaitsLess) {
  ledger.pay(1, {0, 0}, 3);
  ledger.await(0, 0, 3);
  ledger.await(0, 0, 2);
  ledger.close_launch(1);
  EXPECT_TRUE(complains_of("somebody awaits 2 of signal 0 of rank 0, which is paid 3"));
}

TEST_F(LedgerRules, ComplainsOfASignalNobodyAwaits) {
  ledger.pay(1, {0, 3}, 1);
  ledger.close_launch(1);
  EXPECT_TRUE(complains_of("signal 3 of rank 0 holds 1, but 0 is awaited"));
}

TEST_F(LedgerRules, ComplainsOfAnAddToAnotherNode) {
  ledger.pay(0, {2, 0}, 1);
  EXPECT_TRUE(complains_of("on another node"));
}

TEST_F(LedgerRules, ComplainsOfASignalPaidOverNvlinkAndByPuts) {
  ledger.pay(3, {2, 0}, 1);
  ledger.pay_by_put(0, put(0, 2, 0), 1);
  EXPECT_TRUE(complains_of("paid over NVLink and by puts"));
}

TEST_F(LedgerRules, ComplainsOfASignalPaidByPutsAndThenOverNvlink) {
  ledger.pay_by_put(0, put(0, 2, 0), 1);
  ledger.pay(3, {2, 0}, 1);
  EXPECT_TRUE(complains_of("paid over NVLink and by puts"));
}

TEST_F(LedgerRules, ComplainsOfTwoRanksWhosePutsPayOneSignal) {
  ledger::Ledger three_nodes{WorldShape{3, 1}};
  three_nodes.pay_by_put(0, put(0, 2, 0), 1);
  three_nodes.pay_by_put(1, put(1, 2, 0), 1);
  ledger = three_nodes;
  EXPECT_TRUE(complains_of("puts of ranks 0 and 1 both pay"));
}

TEST_F(LedgerRules, StoresAndLoadsStayInTheNodeAndAreCountedWhereAPeerIsTouched) {
  ledger.store(0, {kFirstOperatorWindow, 0, 0}, 8);
  ledger.store(0, {kFirstOperatorWindow, 1, 0}, 16);
  ledger.load(0, {kFirstOperatorWindow, 0, 0}, 32);
  ledger.load(0, {kFirstOperatorWindow, 1, 0}, 64);
  EXPECT_TRUE(ledger.complaints().empty());
  EXPECT_EQ(ledger.nvlink_bytes(0), 80u);
}

TEST_F(LedgerRules, ComplainsOfAStoreToAnotherNodeOrOutsideTheOperatorsWindows) {
  ledger.store(0, {kFirstOperatorWindow, 2, 0}, 8);
  EXPECT_TRUE(complains_of("stores to rank 2 across nodes"));
  ledger.store(0, {kInputWindow, 0, 0}, 8);
  EXPECT_TRUE(complains_of("outside the operator's windows"));
}

TEST_F(LedgerRules, ComplainsOfALoadFromAnotherNodeOrFromAnothersInput) {
  ledger.load(1, {kFirstOperatorWindow, 3, 0}, 8);
  EXPECT_TRUE(complains_of("loads from rank 3 across nodes"));
  ledger.load(1, {kInputWindow, 0, 0}, 8);
  EXPECT_TRUE(complains_of("reads the input of rank 0"));
}

TEST_F(LedgerRules, ComplainsOfAPutThatLeavesItsRail) {
  ledger.pay_by_put(0, put(0, 3, 0), 1);
  EXPECT_TRUE(complains_of("leaves its rail"));
}

TEST_F(LedgerRules, ComplainsOfAPutInsideANode) {
  ledger.pay_by_put(0, put(0, 1, 0), 1);
  EXPECT_TRUE(complains_of("leaves its rail"));
}

TEST_F(LedgerRules, ComplainsOfAPutThatSignalsAnotherRankThanItWritesTo) {
  Put stray = put(0, 2, 0);
  stray.to.rank = 3;
  ledger.pay_by_put(0, stray, 1);
  EXPECT_TRUE(complains_of("a put to rank 3 signals rank 2"));
}

TEST_F(LedgerRules, ComplainsOfAPutFromTheCallersInput) {
  Put from_input = put(0, 2, 0);
  from_input.from.window = kInputWindow;
  ledger.pay_by_put(0, from_input, 1);
  EXPECT_TRUE(complains_of("starts outside its own windows"));
}

TEST_F(LedgerRules, ComplainsOfAPutFromAnotherRanksWindow) {
  Put from_peer = put(0, 2, 0);
  from_peer.from.rank = 1;
  ledger.pay_by_put(0, from_peer, 1);
  EXPECT_TRUE(complains_of("starts outside its own windows"));
}

TEST_F(LedgerRules, ComplainsOfACopyAcrossNodes) {
  ledger.copy(0, {kFirstOperatorWindow, 2, 0}, {kFirstOperatorWindow, 0, 0}, 8);
  EXPECT_TRUE(complains_of("across nodes"));
}

TEST_F(LedgerRules, ComplainsOfReadingAnotherRanksInput) {
  ledger.copy(0, {kFirstOperatorWindow, 0, 0}, {kInputWindow, 1, 0}, 8);
  EXPECT_TRUE(complains_of("reads the input of rank 1"));
}

TEST_F(LedgerRules, CountsNvlinkBytesOfCopiesToPeersOnly) {
  ledger.copy(0, {kFirstOperatorWindow, 1, 0}, {kInputWindow, 0, 0}, 8);
  ledger.copy(0, {kFirstOperatorWindow, 0, 0}, {kInputWindow, 0, 0}, 16);
  EXPECT_EQ(ledger.nvlink_bytes(0), 8u);
  EXPECT_EQ(ledger.network_bytes(0), 0u);
}

}  // namespace
}  // namespace mk::test
