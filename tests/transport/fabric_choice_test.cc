// SPDX-License-Identifier: MIT
// tests/transport/fabric_choice_test.cc — all ranks choose alike, and who cannot is named.
#include "transport/fabric_choice.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace mk::test {
namespace {

// As a rank offers: what it was asked for, what is wrong with that, what it can use.
std::string offer(const std::string& net, const std::string& trouble, const std::string& usable) {
  return net + "\n" + trouble + "\n" + usable;
}

TEST(FabricChoice, AutoIsTheBestThatAllRanksHave) {
  const std::string all = offer("auto", "", "shm\ntcp\nverbs\nefa"), some = offer("auto", "", "tcp\nverbs"),
                    least = offer("auto", "", "tcp");
  EXPECT_EQ(choose_fabric({all, all}), "efa");
  EXPECT_EQ(choose_fabric({all, some}), "verbs");
  EXPECT_EQ(choose_fabric({all, some, least}), "tcp");
}

TEST(FabricChoice, WhatIsAskedForIsTaken) {
  const std::string asked = offer("tcp", "", "tcp\nverbs\nefa");
  EXPECT_EQ(choose_fabric({asked, asked}), "tcp");
}

TEST(FabricChoice, ARankThatLacksWhatIsAskedForIsNamedWithTheReasonAndWhatThereIs) {
  const std::string has = offer("verbs", "", "shm\ntcp\nverbs"), lacks = offer("verbs", "no RDMA device", "shm\ntcp");
  EXPECT_TRUE(
      throws(ErrorCode::kUnavailable, {"net is 'verbs'; rank 1 cannot use it: no RDMA device", "have: shm, tcp"}, [&] {
        choose_fabric({has, lacks});
      }));
}

TEST(FabricChoice, RanksThatWereAskedForDifferentOnesAreNamed) {
  EXPECT_TRUE(refuses({"net is 'verbs' on rank 1 and 'tcp' on rank 0"}, [] {
    choose_fabric({offer("tcp", "", "tcp"), offer("verbs", "", "tcp\nverbs")});
  }));
}

TEST(FabricChoice, NoCommonFabricIsAnError) {
  EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"no fabric between nodes that all ranks have, only: none"}, [] {
    choose_fabric({offer("auto", "", "tcp"), offer("auto", "", "verbs")});
  }));
}

TEST(FabricChoice, AnOfferOfThisMachineCanBeChosenFrom) {
  EXPECT_EQ(choose_fabric({fabric_offer("tcp")}), "tcp");
  EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"net is 'loopback'; rank 0 cannot use it", "one process"},
                     [] { choose_fabric({fabric_offer("loopback")}); }));
  EXPECT_TRUE(refuses({"net is 'pigeon'", "auto, loopback"}, [] { fabric_offer("pigeon"); }));
}

}  // namespace
}  // namespace mk::test
