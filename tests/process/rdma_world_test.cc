// SPDX-License-Identifier: MIT
// tests/process/rdma_world_test.cc — worlds of processes over verbs and efa, on NICs in software, seed after seed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/world_state.h"
#include "tests/support/draws.h"
#include "tests/support/expect_error.h"
#include "tests/support/op_processes.h"
#include "transport/discovery.h"

namespace mk::test {
namespace {

constexpr int kLaunches = 5;
constexpr Shape kShape{13, 21, 3};

void choose_seed(int seed) { setenv("MKERNEL_SOFT_NIC", ("seed=" + std::to_string(seed)).c_str(), 1); }

Options options_of(const char* net) {
  Options options;
  options.timeout_ms = 20'000;
  options.net = net;
  return options;
}

class RdmaWorld : public testing::TestWithParam<std::tuple<const char*, WorldShape>> {
 protected:
  const char* net() const { return std::get<0>(GetParam()); }
  WorldShape shape() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Worlds, RdmaWorld,
                         testing::Combine(testing::Values("verbs", "efa"),
                                          testing::Values(WorldShape{2, 2}, WorldShape{2, 4})),
                         [](const auto& info) {
                           return std::get<0>(info.param) + ("_" + name_of(std::get<1>(info.param)));
                         });

// Operators in turn, so that each seed is one world.
TEST_P(RdmaWorld, OperatorsAreRightWithEverySeed) {
  for (int seed = 1; seed <= draws(30); ++seed) {
    choose_seed(seed);
    std::vector<OpLaunch> launches = launches_of(op_in_turn(seed), shape(), kShape, kLaunches, seed);
    ASSERT_TRUE(processes_run_right(shape(), launches, options_of(net()))) << "seed " << seed;
  }
}

// Each rank asks the NIC in software for what words(rank) say.
template <class Words>
testing::AssertionResult worlds_are_right(const char* net, int queue_depth, Words&& words) {
  constexpr WorldShape kWorld{2, 2};
  constexpr Shape kManyPuts{130, 67, 3};
  std::vector<OpLaunch> launches = launches_of(Op::kAgGemm, kWorld, kManyPuts, kLaunches);
  Options options = options_of(net);
  options.queue_depth = queue_depth;
  const std::string id = World::unique_id();
  return processes_run_right(kWorld, launches, [&](int rank) {
    setenv("MKERNEL_SOFT_NIC", words(rank).c_str(), 1);
    return World::join(id, rank, kWorld.nodes, kWorld.ranks, options);
  });
}

TEST(RdmaQueues, OfAnySizeAreUsedAsTheyAre) {
  for (const char* net : {"verbs", "efa"}) {
    for (const int queue : {4, 16, 64, 128, 8192}) {
      const auto words = [&](int) { return "seed=" + std::to_string(queue) + " queue=" + std::to_string(queue); };
      EXPECT_TRUE(worlds_are_right(net, 0, words)) << net << " " << queue;
    }
  }
}

TEST(RdmaQueues, MayDifferFromRankToRank) {
  for (const char* net : {"verbs", "efa"}) {
    const auto words = [](int rank) { return rank < 2 ? "seed=1 queue=8" : "seed=2 queue=256"; };
    EXPECT_TRUE(worlds_are_right(net, 0, [&](int rank) { return std::string(words(rank)); })) << net;
  }
}

TEST(RdmaQueues, HaveTheDepthThatIsAskedFor) {
  for (const char* net : {"verbs", "efa"}) {
    for (const int depth : {1, 3, 500}) {
      EXPECT_TRUE(worlds_are_right(net, depth, [](int) { return std::string("seed=3"); })) << net << " " << depth;
    }
  }
}

class RdmaRanks : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RdmaRanks, testing::Values("verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RdmaRanks, ARankThatDiesIsNamedByItsRail) {
  choose_seed(3);
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    World world = World::join(id, rank, 2, 1, options_of(GetParam()));
    OpLaunch launch(Op::kAgGemm, {2, 1}, {kShape});
    enqueue(world, launch);
    world.synchronize();
    world.state().exchange("", "the first launch of both");  // who dies earlier may fail that one
    if (rank == 1) _exit(0);
    const auto launch_again = [&] {
      enqueue(world, launch);
      world.synchronize();
    };
    return static_cast<bool>(throws(ErrorCode::kFabric, {"rank 1 is gone"}, launch_again));
  }));
}

TEST(RdmaRanks, TakeTheNicsThatOptionsName) {
  choose_seed(0);
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    Options options = options_of("verbs");
    options.timeout_ms = 2000;
    options.nics = "0=mlx5_9";
    return static_cast<bool>(refuses({"'mlx5_9'", "soft_0, soft_1"}, [&] { World::join(id, rank, 2, 1, options); }));
  }));
}

TEST(RdmaRanks, ThatHaveNotEquallyManyNicsAreNamedToAll) {
  choose_seed(0);
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    Options options = options_of("verbs");
    options.nics = rank == 0 ? "0=soft_0,soft_1" : "0=soft_1";
    return static_cast<bool>(refuses({"2 NICs on rank 0 (soft_0, soft_1)", "rank 1 was given 1 (soft_1)"},
                                     [&] { World::join(id, rank, 2, 1, options); }));
  }));
}

// What hwloc takes for this machine: the recorded tree, with NICs of these names beside GPU 0 and GPU 1.
class RecordedMachine {
 public:
  RecordedMachine(const std::string& nic_0, const std::string& nic_1, const std::string& state_0) {
    std::ifstream recorded(MKERNEL_XML);
    std::string xml(std::istreambuf_iterator<char>(recorded), {});
    replace(xml, R"("mlx5_0" osdev_type="3"><info name="Port1State" value="4"/>)",
            fmt::format(R"("{}" osdev_type="3">{})", nic_0, state_0));
    replace(xml, R"("mlx5_1")", fmt::format(R"("{}")", nic_1));
    std::ofstream(path_) << xml;
    if (const char* const components = getenv("HWLOC_COMPONENTS")) components_ = components;
    unsetenv("HWLOC_COMPONENTS");  // it would keep hwloc from reading files
    setenv("HWLOC_XMLFILE", path_.c_str(), 1);
  }
  RecordedMachine(const RecordedMachine&) = delete;
  ~RecordedMachine() {
    unsetenv("HWLOC_XMLFILE");
    if (!components_.empty()) setenv("HWLOC_COMPONENTS", components_.c_str(), 1);
    std::filesystem::remove(path_);
  }

 private:
  static void replace(std::string& text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }

  std::string components_;
  std::string path_ = fmt::format("{}/mkernel-tree-{}.xml", std::filesystem::temp_directory_path().string(), getpid());
};

constexpr const char* kActive = R"(<info name="Port1State" value="4"/>)";

class NearRanks : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  void SetUp() override {
    if (!why_no_discovery().empty()) GTEST_SKIP() << why_no_discovery();
    choose_seed(0);
  }
  std::string nic(int number) const { return fmt::format("{}_{}", GetParam().second, number); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, NearRanks, testing::Values(std::pair{"verbs", "soft"}, std::pair{"efa", "soft_efa"}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST_P(NearRanks, AreRightOverTheNicsThatAreNear) {
  const RecordedMachine machine(nic(1), nic(0), kActive);
  std::vector<OpLaunch> launches = launches_of(Op::kAgGemm, {2, 2}, kShape, kLaunches);
  EXPECT_TRUE(processes_run_right({2, 2}, launches, options_of(GetParam().first)));
}

// The tree tells of a second port, which the NIC refuses by name: so it was the near one that was opened, and not the
// first that is active.
TEST_P(NearRanks, TakeTheNicBesideTheirGpu) {
  const RecordedMachine machine(nic(1), nic(0),
                                R"(<info name="Port1State" value="1"/><info name="Port2State" value="4"/>)");
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    Options options = options_of(GetParam().first);
    const std::string refusal = fmt::format("port 2 of {}", nic(1));
    return static_cast<bool>(refuses({refusal}, [&] { World::join(id, rank, 2, 1, options); }));
  }));
}

}  // namespace
}  // namespace mk::test
