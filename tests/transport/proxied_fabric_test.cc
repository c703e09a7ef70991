// SPDX-License-Identifier: MIT
// tests/transport/proxied_fabric_test.cc — every fabric carries what proxies take from their rings.
#include <gtest/gtest.h>

#include "tests/support/fabric_types.h"
#include "tests/support/ring_traffic.h"

namespace mk::test {
namespace {

class ProxiedFabric : public testing::TestWithParam<FabricType> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, ProxiedFabric, testing::ValuesIn(all_fabrics()),
                         [](const auto& info) { return info.param.label; });

TEST_P(ProxiedFabric, CarriesWhatProxiesTakeFromTheirRings) {
  const std::string missing = fabric_kind(GetParam().kind).why_not();
  if (!missing.empty()) GTEST_SKIP() << GetParam().kind << ": " << missing;
  FabricWorld world = GetParam().world({2, 1}, kRingTrafficBytes);
  carry_ring_traffic(world);
}

}  // namespace
}  // namespace mk::test
