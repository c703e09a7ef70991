// SPDX-License-Identifier: MIT
// tests/transport/proxied_fabric_test.cc — every fabric carries what proxies take from their rings.
#include <gtest/gtest.h>

#include "tests/support/fabric_types.h"
#include "tests/support/ring_traffic.h"

namespace mk::test {
namespace {

class ProxiedFabric : public FabricTest {};
INSTANTIATE_TEST_SUITE_P(Fabrics, ProxiedFabric, testing::ValuesIn(all_fabrics()), kFabricLabel);

TEST_P(ProxiedFabric, CarriesWhatProxiesTakeFromTheirRings) {
  FabricWorld world = make_world({2, 1}, kRingTrafficBytes);
  carry_ring_traffic(world, RingPayments::kAmounts);
}

TEST_P(ProxiedFabric, CarriesStampsThatProxiesTakeFromTheirRings) {
  FabricWorld world = make_world({2, 1}, kRingTrafficBytes);
  carry_ring_traffic(world, RingPayments::kStamps);
}

}  // namespace
}  // namespace mk::test
