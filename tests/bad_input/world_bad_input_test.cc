// SPDX-License-Identifier: MIT
// tests/bad_input/world_bad_input_test.cc — Worlds that cannot be, and settings from the environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/op_launch.h"

namespace mk::test {
namespace {

struct BadWorld {
  const char* name;
  std::string_view word;
  int nodes;
  int ranks;
  Options options;
};

constexpr BadWorld kBadWorlds[] = {
    {"NoNodes", "nodes is 0", 0, 1, {}},
    {"NegativeNodes", "nodes is -1", -1, 1, {}},
    {"NoRanks", "ranks_per_node is 0", 1, 0, {}},
    {"NegativeRanks", "ranks_per_node is -8", 1, -8, {}},
    {"TooManyRanks", "65 x 64", 65, 64, {}},
    {"FarTooManyRanks", "65536 x 65536", 65536, 65536, {}},
    {"NoTime", "timeout_ms is 0", 1, 1, {.timeout_ms = 0}},
    {"NegativeTime", "timeout_ms is -5", 1, 1, {.timeout_ms = -5}},
    {"TimeBeyondTheClock", "timeout_ms", 1, 1, {.timeout_ms = std::numeric_limits<int64_t>::max()}},
    {"NoRing", "ring_capacity is 0", 1, 1, {.ring_capacity = 0}},
    {"NegativeRing", "ring_capacity is -4", 1, 1, {.ring_capacity = -4}},
    {"RingNoPowerOfTwo", "ring_capacity is 3", 1, 1, {.ring_capacity = 3}},
    {"RingTooLarge", "ring_capacity is 2097152", 1, 1, {.ring_capacity = 1 << 21}},
    {"NegativeDepth", "queue_depth is -1; it must be 0 (chosen) to 8192", 1, 1, {.queue_depth = -1}},
    {"DepthTooLarge", "queue_depth is 8193", 1, 1, {.queue_depth = 8193}},
    {"GpuDirectIsNoWordOfThose", "gpu_direct is 'maybe'", 1, 1, {.gpu_direct = "maybe"}},
};

void PrintTo(const BadWorld& world, std::ostream* out) { *out << world.name; }

class WorldBadInput : public testing::TestWithParam<BadWorld> {};

INSTANTIATE_TEST_SUITE_P(Each, WorldBadInput, testing::ValuesIn(kBadWorlds),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(WorldBadInput, IsRefusedByName) {
  const BadWorld& bad = GetParam();
  EXPECT_TRUE(refuses({bad.word}, [&] { World::local(bad.nodes, bad.ranks, DeviceKind::kCpu, bad.options); }));
}

TEST(WorldRank, AStreamOfARankThatIsNotThereIsRefused) {
  const World world = World::local(1, 2, DeviceKind::kCpu);
  EXPECT_TRUE(refuses({"rank is 2"}, [&] { world.rank_stream(2); }));
  EXPECT_TRUE(refuses({"rank is -1"}, [&] { world.rank_stream(-1); }));
}

// Sets a variable of the environment until the end of the test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Environment, SetsTimeoutAndRingOverWhatTheCallerHas) {
  const Variable timeout("MKERNEL_TIMEOUT", "1234");
  const Variable ring("MKERNEL_RING_CAPACITY", "8");
  const Options options = Options::from_env({.timeout_ms = 1, .ring_capacity = 2, .trace = true});
  EXPECT_EQ(options.timeout_ms, 1234);
  EXPECT_EQ(options.ring_capacity, 8);
  EXPECT_TRUE(options.trace);
}

TEST(Environment, SetsTheDepthOfQueues) {
  const Variable depth("MKERNEL_QUEUE_DEPTH", "16");
  EXPECT_EQ(Options::from_env().queue_depth, 16);
  const Variable word("MKERNEL_QUEUE_DEPTH", "deep");
  EXPECT_TRUE(refuses({"MKERNEL_QUEUE_DEPTH is 'deep'"}, [] { Options::from_env(); }));
}

TEST(Environment, SaysWhetherNicsReachGpus) {
  const Variable direct("MKERNEL_GPU_DIRECT", "off");
  EXPECT_EQ(Options::from_env().gpu_direct, "off");
}

TEST(Environment, LeavesWhatItDoesNotName) {
  unsetenv("MKERNEL_TIMEOUT");
  const Variable empty("MKERNEL_RING_CAPACITY", "");
  EXPECT_EQ(Options::from_env({.timeout_ms = 77}).timeout_ms, 77);
  EXPECT_EQ(Options::from_env().timeout_ms, Options{}.timeout_ms);
  EXPECT_EQ(Options::from_env().ring_capacity, Options{}.ring_capacity);
}

TEST(Environment, AValueThatIsNoNumberIsRefusedWithTheVariablesName) {
  for (const char* value : {"abc", "12x", " 5", "1e3", "99999999999999999999", "-"}) {
    const Variable timeout("MKERNEL_TIMEOUT", value);
    EXPECT_TRUE(refuses({"MKERNEL_TIMEOUT", value}, [] { Options::from_env(); })) << value;
  }
  for (const char* value : {"abc", "4.0", "4294967296"}) {
    const Variable ring("MKERNEL_RING_CAPACITY", value);
    EXPECT_TRUE(refuses({"MKERNEL_RING_CAPACITY", value}, [] { Options::from_env(); })) << value;
  }
}

TEST(Environment, AWorldStillWorksAfterARefusedVariable) {
  {
    const Variable timeout("MKERNEL_TIMEOUT", "abc");
    EXPECT_TRUE(refuses({"MKERNEL_TIMEOUT"}, [] { Options::from_env(); }));
  }
  World world = World::local(2, 2, DeviceKind::kCpu, Options::from_env());
  EXPECT_TRUE(runs_right(world, Op::kAgGemm, {33, 7, 3}, {.launches = 2}));
}

}  // namespace
}  // namespace mk::test
