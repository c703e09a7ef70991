// SPDX-License-Identifier: MIT
// tests/transport/placement_test.cc — which NIC serves which GPU on machines of known shapes.
#include "transport/placement.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/machine_shape.h"

namespace mk::test {
namespace {

struct Case {
  const char* what;
  MachineShape machine;
  const char* serves;
  int rails_per_gpu;
};

MachineShape four_gpus_one_nic() {
  MachineShape machine(2, 4);
  const Branch first = machine.host_bridge(0);
  machine.nic(first);
  for (const Branch& branch : {first, machine.host_bridge(0), machine.host_bridge(1), machine.host_bridge(1)}) {
    machine.gpu(branch);
  }
  return machine;
}

MachineShape two_gpus_no_nic() {
  MachineShape machine(2, 4);
  machine.gpu(machine.host_bridge(0));
  machine.gpu(machine.host_bridge(1));
  return machine;
}

// As in a virtual machine that shows no switches.
MachineShape all_at_one_bridge(int gpus, const std::vector<double>& speeds) {
  MachineShape machine(1, 8);
  const Branch host = machine.host_bridge(0);
  for (const double gbps : speeds) machine.nic(host, gbps);
  for (int i = 0; i < gpus; ++i) machine.gpu(host);
  return machine;
}

MachineShape hgx_with(const char* nic_that_is_down) {
  MachineShape machine(2, 16);
  for (const int numa_node : {0, 0, 1, 1}) {
    const Branch branch = machine.switch_at(numa_node);
    for (int i = 0; i < 2; ++i) {
      machine.gpu(branch);
      Nic& nic = machine.nic(branch);
      if (nic.name() == nic_that_is_down) nic.state = "down";
    }
  }
  return machine;
}

// The storage NIC is nearer to GPU 0 than any other.
MachineShape with_storage_nic() {
  MachineShape machine(1, 8);
  const Branch host = machine.host_bridge(0);
  const Branch first = machine.switch_below(host);
  machine.nic(first, 25).link_layer = "Ethernet";
  machine.gpu(first);
  const Branch second = machine.switch_below(host);
  machine.gpu(second);
  machine.nic(second);
  machine.nic(second);
  return machine;
}

// A slower NIC at the second GPU's socket, two faster ones at the first's.
MachineShape slower_is_nearer() {
  MachineShape machine(2, 4);
  const Branch first = machine.host_bridge(0);
  const Branch second = machine.host_bridge(1);
  machine.nic(first, 400);
  machine.nic(first, 400);
  machine.nic(second, 200);
  machine.gpu(first);
  machine.gpu(second);
  return machine;
}

// Both GPUs and both NICs are below one switch, and a pair of them below a switch of its own each.
MachineShape nested_switches() {
  MachineShape machine(1, 4);
  const Branch outer = machine.switch_at(0);
  const Branch first = machine.switch_below(outer);
  const Branch second = machine.switch_below(outer);
  machine.gpu(first);
  machine.gpu(second);
  machine.nic(second);
  machine.nic(first);
  return machine;
}

// GPU 0 is as near to both NICs; GPU 1 has but one at its switch, the first.
MachineShape one_must_leave_the_first() {
  MachineShape machine(1, 4);
  const Branch host = machine.host_bridge(0);
  machine.gpu(host);
  const Branch branch = machine.switch_below(host);
  machine.nic(branch);
  machine.gpu(branch);
  machine.nic(host);
  return machine;
}

MachineShape p5_with_one_down() {
  MachineShape machine(2, 16);
  for (const int numa_node : {0, 0, 1, 1}) {
    const Branch branch = machine.switch_at(numa_node);
    for (int i = 0; i < 2; ++i) machine.gpu(branch);
    for (int i = 0; i < 4; ++i) machine.nic(branch, 200);
    if (numa_node == 0) machine.nic(branch, 200).state = "down";
  }
  return machine;
}

MachineShape two_ports_a_device() {
  MachineShape machine(1, 4);
  const Branch host = machine.host_bridge(0);
  machine.gpu(host);
  machine.gpu(host);
  const Nic first = machine.nic(host, 100);
  Nic& second = machine.nic(host, 100);
  second = first;
  second.port = 2;
  return machine;
}

const Case kCases[] = {
    {"HGX H100", hgx_h100(), "0=nic0;1=nic1;2=nic2;3=nic3;4=nic4;5=nic5;6=nic6;7=nic7", 1},
    {"16 EFA for 8 GPUs", p5(),
     "0=nic0,nic1;1=nic2,nic3;2=nic4,nic5;3=nic6,nic7;4=nic8,nic9;5=nic10,nic11;6=nic12,nic13;7=nic14,nic15", 2},
    {"4 NICs for 8 GPUs", eight_gpus_four_nics(), "0=nic0;1=nic0;2=nic1;3=nic1;4=nic2;5=nic2;6=nic3;7=nic3", 1},
    {"1 NIC for 4 GPUs", four_gpus_one_nic(), "0=nic0;1=nic0;2=nic0;3=nic0", 1},
    {"no NIC for 2 GPUs", two_gpus_no_nic(), "0=;1=", 0},
    {"no GPU", all_at_one_bridge(0, {400}), "", 0},
    {"faster ones first", all_at_one_bridge(2, {200, 400, 400}), "0=nic1;1=nic2", 1},
    {"a slower one rather than a shared one", all_at_one_bridge(3, {200, 400, 400}), "0=nic0;1=nic1;2=nic2", 1},
    {"the faster one is shared", all_at_one_bridge(3, {100, 400}), "0=nic0;1=nic1;2=nic1", 1},
    {"no second rail that is slower", all_at_one_bridge(2, {400, 200, 400, 200}), "0=nic0;1=nic2", 1},
    {"three rails", all_at_one_bridge(1, {100, 100, 100}), "0=nic0,nic1,nic2", 3},
    {"one is down", hgx_with("nic2"), "0=nic0;1=nic1;2=nic3;3=nic3;4=nic4;5=nic5;6=nic6;7=nic7", 1},
    {"storage NIC", with_storage_nic(), "0=nic1;1=nic2", 1},
    {"near outranks fast", slower_is_nearer(), "0=nic0;1=nic2", 1},
    {"nested switches", nested_switches(), "0=nic1;1=nic0", 1},
    {"the only near one is left to its GPU", one_must_leave_the_first(), "0=nic1;1=nic0", 1},
    {"two are down of 18", p5_with_one_down(),
     "0=nic0,nic1;1=nic2,nic3;2=nic5,nic6;3=nic7,nic8;4=nic10,nic11;5=nic12,nic13;6=nic14,nic15;7=nic16,nic17", 2},
    {"two ports a device", two_ports_a_device(), "0=nic0;1=nic0:2", 1},
};

TEST(Placement, EveryKnownMachineIsServedAsItsShapeSays) {
  for (const Case& one : kCases) {
    const Placement placement = place(one.machine.topology());
    EXPECT_EQ(served(placement), one.serves) << one.what;
    EXPECT_EQ(placement.rails_per_gpu, one.rails_per_gpu) << one.what;
  }
}

TEST(Placement, WhatWasChosenCanBeAskedFor) {
  for (const Case& one : kCases) {
    const Placement chosen = place(one.machine.topology());
    if (chosen.rails_per_gpu == 0) continue;
    const Placement asked = place(one.machine.topology(), served(chosen));
    EXPECT_EQ(served(asked), served(chosen)) << one.what;
    EXPECT_EQ(asked.rails_per_gpu, chosen.rails_per_gpu) << one.what;
  }
}

TEST(Placement, RailsAreNumberedByRankAndEachGpuHasItsOwn) {
  const Placement placement = place(p5().topology());
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(placement.gpus[rank].rails[0].number, 2 * rank);
    EXPECT_EQ(placement.gpus[rank].rails[1].number, 2 * rank + 1);
    EXPECT_EQ(placement.gpus[rank].rails[0].distance, Distance::kSwitch);
  }
}

TEST(Placement, NodesOfOneShapeAgreeWhateverTheirBusesAndNames) {
  Topology other = four_switches(2, 2, 400, 0x30).topology();
  for (Nic& nic : other.nics) nic.device = "mlx5_" + nic.device.substr(3);
  std::string renamed = served(place(other));
  for (size_t at; (at = renamed.find("mlx5_")) != renamed.npos;) renamed.replace(at, 5, "nic");
  EXPECT_EQ(renamed, served(place(hgx_h100().topology())));
}

TEST(Placement, RailsCanBeBoundForWorldsWhoseNodesDiffer) {
  const Placement placement = place(p5().topology(), "", 1);
  EXPECT_EQ(placement.rails_per_gpu, 1);
  std::set<int> nics;
  for (const GpuPlacement& gpu : placement.gpus) nics.insert(gpu.rails[0].nic);
  EXPECT_EQ(nics.size(), 8u);
}

TEST(Placement, OneNicLessThanTwoEachTakesTheSecondRailFromAll) {
  Topology topology = p5().topology();
  topology.nics[3].state = "down";
  const Placement placement = place(topology);
  EXPECT_EQ(placement.rails_per_gpu, 1);
  for (const GpuPlacement& gpu : placement.gpus) EXPECT_EQ(gpu.rails.size(), 1u);
}

TEST(Placement, ANicThatDoesNotServeSaysWhy) {
  const auto uses = [](const MachineShape& machine, const char* nics) { return place(machine.topology(), nics).nics; };
  EXPECT_EQ(uses(with_storage_nic(), "")[0], NicUse::kFarSlower);
  EXPECT_EQ(uses(with_storage_nic(), "nic0")[0], NicUse::kServes);
  EXPECT_EQ(uses(with_storage_nic(), "nic0")[1], NicUse::kNotListed);
  EXPECT_EQ(uses(with_storage_nic(), "0=nic0;1=nic1")[2], NicUse::kNotListed);
  EXPECT_EQ(uses(hgx_with("nic2"), "")[2], NicUse::kNotActive);
  EXPECT_EQ(uses(slower_is_nearer(), "")[1], NicUse::kIdle);
}

TEST(Placement, AnEighthOfTheFastestIsStillTakenAndLessIsNot) {
  EXPECT_EQ(served(place(all_at_one_bridge(2, {400, 50}).topology())), "0=nic0;1=nic1");
  EXPECT_EQ(served(place(all_at_one_bridge(2, {400, 49}).topology())), "0=nic0;1=nic0");
  EXPECT_EQ(served(place(all_at_one_bridge(2, {400, 0}).topology())), "0=nic0;1=nic1") << "its speed is not known";
}

TEST(Placement, ProxiesHaveCoresOfTheirOwnAtTheirNic) {
  const Placement placement = place(hgx_h100().topology());
  std::set<int> all;
  for (size_t g = 0; g < 8; ++g) {
    ASSERT_EQ(placement.gpus[g].cores.size(), 4u);
    for (const int core : placement.gpus[g].cores) {
      EXPECT_EQ(core / 16, g < 4 ? 0 : 1) << "of the NIC's NUMA node";
      EXPECT_TRUE(all.insert(core).second) << "core " << core << " is given twice";
    }
  }
}

TEST(Placement, CoresAreThoseOfTheNicWhereItsGpuIsElsewhere) {
  const Placement placement = place(four_gpus_one_nic().topology());
  for (size_t g = 0; g < 4; ++g) EXPECT_EQ(placement.gpus[g].cores, std::vector<int>{static_cast<int>(g)});
}

TEST(Placement, WhereCoresAreFewProxiesShareThem) {
  Topology topology = all_at_one_bridge(3, {400}).topology();
  topology.numa_nodes[0].cores = {5, 6};
  for (const GpuPlacement& gpu : place(topology).gpus) EXPECT_EQ(gpu.cores, (std::vector<int>{5, 6}));
  topology.nics[0].location.numa_node = -1;
  topology.numa_nodes.push_back({.number = 1, .cores = {7}});
  EXPECT_EQ(place(topology).gpus[2].cores, std::vector<int>{7}) << "a NIC of unknown location is near to all";
}

TEST(Placement, WithoutANicCoresAreNearTheGpu) {
  const Placement placement = place(two_gpus_no_nic().topology());
  EXPECT_EQ(placement.gpus[0].cores, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(placement.gpus[1].cores, (std::vector<int>{4, 5, 6, 7}));
}

}  // namespace
}  // namespace mk::test
