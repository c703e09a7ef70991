// SPDX-License-Identifier: MIT
// tests/transport/nic_choice_test.cc — which NICs ranks use: the nearest, as many on all ranks, or those they were
// given.
#include "transport/nic_choice.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/machine_shape.h"

namespace mk::test {
namespace {

using Names = std::vector<std::string>;

Names devices_of(const MachineShape& machine) {
  Names names;
  for (const Nic& nic : machine.topology().nics) names.push_back(nic.device);
  return names;
}

Names nearest(const MachineShape& machine, int local, const std::string& nics = "") {
  return nearest_nics(machine.topology(), devices_of(machine), nics, local);
}

std::string offer(const MachineShape& machine, int local, const std::string& nics = "") {
  return nic_offer(machine.topology(), devices_of(machine), nics, local);
}

// A machine of which nothing is known.
std::string blind_offer(int local, const std::string& nics = "") {
  return nic_offer({}, {"nic0", "nic1"}, nics, local);
}

TEST(NearestNics, AreThoseThatPlacementGivesTheRanksGpu) {
  for (int local = 0; local < 8; ++local) {
    EXPECT_EQ(nearest(hgx_h100(), local), Names{fmt::format("nic{}", local)});
    EXPECT_EQ(nearest(p5(), local), (Names{fmt::format("nic{}", 2 * local), fmt::format("nic{}", 2 * local + 1)}));
    EXPECT_EQ(nearest(eight_gpus_four_nics(), local), Names{fmt::format("nic{}", local / 2)});
  }
  EXPECT_EQ(nearest(hgx_h100(), 5, "nic0,nic6"), Names{"nic6"});
}

TEST(NearestNics, AreNoneWhereThereIsNothingToChoose) {
  EXPECT_EQ(nearest(hgx_h100(), 8), Names{}) << "there is no such GPU";
  EXPECT_EQ(nearest_nics(hgx_h100().topology(), {"nic3"}, "", 0), Names{}) << "there is one NIC";
  EXPECT_EQ(nearest_nics({}, {}, "", 0), Names{});
  MachineShape without_gpus(1, 4);
  without_gpus.nic(without_gpus.host_bridge(0));
  without_gpus.nic(without_gpus.host_bridge(0));
  EXPECT_EQ(nearest(without_gpus, 0), Names{});
}

TEST(NearestNics, AreOfTheFabricAndActive) {
  Topology topology = hgx_h100().topology();
  EXPECT_EQ(nearest_nics(topology, {"nic1", "nic2", "nic7"}, "", 0), Names{"nic1"}) << "nic0 is for another fabric";
  topology.nics[0].state = "down";
  EXPECT_EQ(nearest_nics(topology, {"nic0", "nic1", "nic2"}, "", 0), Names{"nic1"});
  EXPECT_EQ(nearest_nics(topology, {"nic0", "nic1"}, "", 0), Names{}) << "one is active";
}

TEST(ChooseNics, OfNodesThatDifferAllUseAsManyAsThePoorest) {
  const std::vector<std::string> offers = {offer(p5(), 0), offer(p5(), 1), offer(hgx_h100(), 0), offer(hgx_h100(), 1)};
  EXPECT_EQ(choose_nics(offers, 1), Names{"nic2"});
  EXPECT_EQ(choose_nics(offers, 3), Names{"nic1"});
  EXPECT_EQ(choose_nics({offer(p5(), 3), offer(p5(), 3)}, 0), (Names{"nic6", "nic7"}));
  EXPECT_EQ(choose_nics({offer(p5(), 3), blind_offer(0)}, 0), Names{"nic6"});
  EXPECT_EQ(choose_nics({offer(p5(), 3), blind_offer(0)}, 1), Names{}) << "the first that is active";
}

TEST(ChooseNics, WhatIsGivenRankByRankIsTaken) {
  const std::string given = "0=nic0,nic7;1=nic3,nic4";
  EXPECT_EQ(choose_nics({offer(hgx_h100(), 0, given), offer(hgx_h100(), 1, given)}, 1), (Names{"nic3", "nic4"}));
  EXPECT_EQ(choose_nics({blind_offer(0, "0=nic1"), offer(p5(), 1)}, 1), Names{"nic2"}) << "the other has enough";
}

TEST(ChooseNics, AListIsChosenFromAndWithoutATopologyTakenInTurn) {
  EXPECT_EQ(choose_nics({offer(hgx_h100(), 6, "nic7,nic1")}, 0), Names{"nic7"});
  EXPECT_EQ(choose_nics({blind_offer(0, "nic1,nic0"), blind_offer(1, "nic1,nic0")}, 1), Names{"nic0"});
  EXPECT_EQ(choose_nics({offer(hgx_h100(), 0, "rxe0,rxe1")}, 0), Names{"rxe0"})
      << "the topology may lack what there is";
}

TEST(ChooseNics, WhoDoesNotFitIsNamedToAll) {
  struct Bad {
    std::vector<std::string> offers;
    std::initializer_list<std::string_view> words;
  };
  const Bad bad[] = {
      {{blind_offer(0, "0=nic0,nic1;1=nic0"), blind_offer(0)},
       {"nics is '0=nic0,nic1;1=nic0'", "GPU 0 has 2 of them and GPU 1 has 1", "on rank 0"}},
      {{blind_offer(0), blind_offer(1, "0=nic0")}, {"nics is '0=nic0'", "no NIC for rank 1 of a node", "on rank 1"}},
      {{blind_offer(0, "0=nic0,nic1"), blind_offer(0, "0=nic1")},
       {"nics is for 2 NICs on rank 0 (nic0, nic1)", "rank 1 was given 1 (nic1)"}},
      {{blind_offer(0, "0=nic0"), blind_offer(0, "0=nic1,nic0")},
       {"nics is for 1 NICs on rank 0 (nic0)", "rank 1 was given 2 (nic1, nic0)"}},
      {{offer(hgx_h100(), 4), blind_offer(0, "0=nic1,nic0")}, {"for 2 NICs on rank 1", "rank 0 has 1 (nic4)"}},
      {{blind_offer(0), blind_offer(0, "0=nic1,nic0")}, {"rank 0 has 1 (the first that is active)"}},
  };
  for (const Bad& one : bad) {
    for (const int rank : {0, 1}) EXPECT_TRUE(refuses(one.words, [&] { choose_nics(one.offers, rank); }));
  }
}

}  // namespace
}  // namespace mk::test
