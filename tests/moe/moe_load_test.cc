// SPDX-License-Identifier: MIT
// tests/moe/moe_load_test.cc — counters of load: each launch adds the rows that its experts get.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/moe_launch.h"
#include "tests/support/moe_layer_launch.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

const MoeLaunchData& routing_of(MoeLaunch& launch) { return launch.data(); }
const MoeLaunchData& routing_of(MoeLayerLaunch& launch) { return launch.data().routing(); }

// Launches that share counters, of which those with more rows than max_rows are refused.
template <class Launch, class Data, class Problem>
void adds_up(const WorldShape& shape, const Problem& problem) {
  World world = World::local(shape.nodes, shape.ranks, DeviceKind::kCpu);
  const int experts = problem.local_experts();
  constexpr int32_t kBefore = 1000;  // nobody clears them
  std::vector<std::vector<int32_t>> load(shape.size(), std::vector<int32_t>(experts, kBefore));
  std::vector<std::vector<int32_t>> right = load;
  std::vector<std::unique_ptr<Launch>> queued;
  int refused = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Routing routing = kRoutings[seed % std::size(kRoutings)];
    Launch& launch = *queued.emplace_back(std::make_unique<Launch>(world, Data(problem, routing, seed)));
    const MoeLaunchData& data = routing_of(launch);
    bool fits = true;
    for (int rank = 0; rank < shape.size(); ++rank) {
      launch.args()[rank].load = load[rank].data();
      fits = fits && data.rows_on(rank) <= problem.shape.max_rows;
    }
    refused += fits ? 0 : 1;
    for (int rank = 0; rank < shape.size() && fits; ++rank) {
      for (int i = 0; i < experts; ++i) right[rank][i] += static_cast<int32_t>(data.rows_of(rank * experts + i).size());
    }
    launch.enqueue(world);
  }
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"max_rows"}, [&] { world.synchronize(); }));
  EXPECT_TRUE(refused > 0 && refused < 8) << refused;
  EXPECT_EQ(load, right);
}

class MoeLoad : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MoeLoad,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 4}, WorldShape{2, 2}, WorldShape{3, 2}),
                         case_name<testing::TestParamInfo<WorldShape>>);

TEST_P(MoeLoad, OfADispatchAddsUp) {
  const WorldShape shape = GetParam();
  adds_up<MoeLaunch, MoeLaunchData>(shape, moe_problem(shape, 3, 2, 20, 15));
}

TEST_P(MoeLoad, OfALayerAddsUp) {
  const WorldShape shape = GetParam();
  adds_up<MoeLayerLaunch, MoeLayerData>(shape, layer_problem(shape, 3, 2, 20, 15));
}

}  // namespace
}  // namespace mk::test
