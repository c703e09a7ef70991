// SPDX-License-Identifier: MIT
// tests/runtime/proxy_cores_test.cc — a proxy's cores are those near its rank's NIC, if there is one.
#include "runtime/proxy_cores.h"

#include <gtest/gtest.h>

namespace mk::test {
namespace {

// Two sockets with a GPU each, and as many NICs as asked for, one at each socket.
Placement node_with(int num_nics) {
  Topology topology;
  topology.numa_nodes = {{0, {0, 1}}, {1, {2, 3}}};
  topology.gpus = {{{"0000:13:00.0", 0, {"0000:10"}}}, {{"0000:93:00.0", 1, {"0000:90"}}}};
  const Nic nics[] = {{.location = {"0000:14:00.0", 0, {"0000:10"}}, .device = "mlx5_0", .gbps = 400},
                      {.location = {"0000:94:00.0", 1, {"0000:90"}}, .device = "mlx5_1", .gbps = 400}};
  topology.nics.assign(nics, nics + num_nics);
  return place(topology);
}

TEST(ProxyCores, AreNearTheNicOfTheRanksGpu) {
  const Placement node = node_with(2);
  EXPECT_EQ(runtime::cores_in(node, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(runtime::cores_in(node, 1), (std::vector<int>{2, 3}));
}

TEST(ProxyCores, AreAnywhereWithoutANicOrAGpu) {
  EXPECT_TRUE(runtime::cores_in(node_with(0), 0).empty());
  EXPECT_TRUE(runtime::cores_in(node_with(2), 2).empty());
}

TEST(ProxyCores, AreAnywhereForFabricsWithoutNicsAndWhereSwitchedOff) {
  for (const char* fabric : {"loopback", "shm", "tcp"})
    EXPECT_TRUE(runtime::proxy_cores(fabric, 0, {}).empty()) << fabric;
  Options off;
  off.pin_proxies = false;
  EXPECT_TRUE(runtime::proxy_cores("verbs", 0, off).empty());
}

TEST(ProxyCores, OfNicsThatAreNotThereAreNoError) {
  Options options;
  options.nics = "no_such_nic";
  EXPECT_TRUE(runtime::proxy_cores("verbs", 0, options).empty());
}

}  // namespace
}  // namespace mk::test
