// SPDX-License-Identifier: MIT
// tests/transport/direct_fabric_test.cc — NICs that reach a device's windows themselves: what is left to the Mover,
// and no signal before its bytes.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/fabric_world.h"
#include "tests/support/flag_fabric.h"

namespace mk::test {
namespace {

constexpr WorldShape kTwoNodes{2, 1};
constexpr uint64_t kBlocks = 60, kBlockBytes = 5000;
constexpr int kSeeds = 12;

void choose_nic(const std::string& words) { setenv("MKERNEL_SOFT_NIC", words.c_str(), 1); }

// The mistake: signals are paid, and only then is what they speak of there.
class HastyMover : public HostMover {
 public:
  using HostMover::HostMover;
  void settle() override { is_due_ = true; }
  void poll(std::vector<uint64_t>& done) override {
    HostMover::poll(done);
    if (!is_busy() && std::exchange(is_due_, false)) HostMover::settle();
  }

 private:
  bool is_due_ = false;
};

// The mistake: what was there when the device began is taken for all there will ever be.
class LazyMover : public HostMover {
 public:
  using HostMover::HostMover;
  void settle() override {
    if (std::exchange(is_first_, false)) HostMover::settle();
  }

 private:
  bool is_first_ = true;
};

class DirectFabric : public testing::TestWithParam<const char*> {
 protected:
  FabricWorld make_world(const FabricWorld::MoverMaker& make_mover = FabricWorld::any_mover) const {
    return {GetParam(), kTwoNodes, kBlocks * kBlockBytes, {}, Windows::kDirect, make_mover};
  }

  template <class AnyMover>
  int wrong_seeds() const {
    int wrong = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      choose_nic("seed=" + std::to_string(seed));
      FabricWorld world = make_world([](int rank, std::vector<const FarMemory*> windows) {
        return std::make_unique<AnyMover>(static_cast<uint64_t>(rank), std::move(windows));
      });
      const int blocks = blocks_not_there(world, kBlocks, kBlockBytes);
      EXPECT_NE(blocks, -1) << "seed " << seed;
      wrong += blocks > 0 ? 1 : 0;
    }
    return wrong;
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, DirectFabric, testing::Values("verbs", "efa"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DirectFabric, HasBytesThereWhenTheirSignalIs) { EXPECT_EQ(wrong_seeds<HostMover>(), 0); }

TEST_P(DirectFabric, AMutantThatSettlesAfterItPaysIsFound) { EXPECT_GT(wrong_seeds<HastyMover>(), 0); }

TEST_P(DirectFabric, AMutantThatSettlesOnceIsFoundByEverySeed) { EXPECT_EQ(wrong_seeds<LazyMover>(), kSeeds); }

TEST_P(DirectFabric, LeavesNothingButSignalsToTheMover) {
  choose_nic("seed=1");
  FabricWorld world = make_world();
  EXPECT_EQ(blocks_not_there(world, kBlocks, kBlockBytes), 0);
  EXPECT_NE(world.port(1).describe().find("windows: GPU memory by DMA-BUF"), std::string::npos);
  const HostMover::Counts& sender = world.mover(0).counts();
  const HostMover::Counts& receiver = world.mover(1).counts();
  EXPECT_EQ(receiver.payments, static_cast<int>(kBlocks));
  EXPECT_GT(receiver.settles, 0);
  EXPECT_LE(receiver.settles, receiver.payments);
  EXPECT_EQ(receiver.pins + receiver.reads + receiver.landings, 0);
  EXPECT_EQ(sender.pins + sender.reads + sender.landings + sender.payments + sender.settles, 0);
}

TEST_P(DirectFabric, TakesPeermemWhereThereIsNoDmabuf) {
  choose_nic("seed=2 no_dmabuf=1 peermem=1");
  FabricWorld world = make_world();
  EXPECT_EQ(blocks_not_there(world, kBlocks, kBlockBytes), 0);
  EXPECT_NE(world.port(0).describe().find("windows: GPU memory by peermem"), std::string::npos);
}

TEST_P(DirectFabric, SaysWhatWasTriedWhereNothingWorks) {
  choose_nic("no_dmabuf=1");
  EXPECT_TRUE(throws(
      ErrorCode::kUnavailable,
      {"cannot register 300000 bytes of GPU memory", "by DMA-BUF: Operation not supported", "by peermem: Bad address"},
      [&] { make_world(); }));
}

TEST_P(DirectFabric, ADeviceThatFailsIsAFailureOfBothEnds) {
  choose_nic("seed=3");
  FabricWorld world = make_world();
  world.mover(1).fail_after(0, "the device has fallen off");
  ASSERT_EQ(world.fabric(0).put(world.command(1, 0, 0, 100), 0), PutResult::kSent);
  const auto both_failed = [&] { return !world.fabric(0).failure().empty() && !world.fabric(1).failure().empty(); };
  ASSERT_TRUE(world.run_until(both_failed));
  EXPECT_EQ(world.fabric(1).failure(), "the device has fallen off");
  EXPECT_NE(world.fabric(0).failure().find("rank 1"), std::string::npos) << world.fabric(0).failure();
  EXPECT_EQ(world.seen(1, 0), 0u);
  const auto began = std::chrono::steady_clock::now();
  world.fabric(1).nap(std::chrono::milliseconds(20));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(20)) << "it would spin for ever";
}

// Whoever frees the windows next must find no signal on its way to them.
TEST_P(DirectFabric, AnEndThatGoesHasPaidWhatItOwes) {
  choose_nic("seed=4");
  FabricWorld world = make_world();
  ASSERT_EQ(world.fabric(0).put(world.command(1, 0, 0, 100), 0), PutResult::kSent);
  ASSERT_TRUE(world.run_until([&] { return world.mover(1).counts().payments > 0; }));
  ASSERT_TRUE(world.mover(1).is_busy()) << "another seed is needed";
  world.take_fabric(1).reset();
  EXPECT_FALSE(world.mover(1).is_busy());
  EXPECT_EQ(world.seen(1, 0), 1u);
}

// Nobody would wake it up.
TEST_P(DirectFabric, DoesNotNapWhileSignalsAreUnderWay) {
  choose_nic("seed=5");
  FabricWorld world = make_world();
  ASSERT_EQ(world.fabric(0).put(world.command(1, 0, 0, 100), 0), PutResult::kSent);
  ASSERT_TRUE(world.run_until([&] { return world.mover(1).counts().payments > 0; }));
  const auto began = std::chrono::steady_clock::now();
  world.fabric(1).nap(std::chrono::seconds(5));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(4));
}

TEST(DirectPort, OfAFabricWithoutNicsIsRefused) {
  PortSettings settings;
  settings.world = kTwoNodes;
  HostMover mover(1, {});
  settings.mover = &mover;
  const WindowRegistry windows;
  EXPECT_TRUE(
      refuses({"the fabric tcp reaches no memory but the host's"}, [&] { open_port("tcp", settings, windows); }));
}

// As the kernel refuses what it has no pages for: a window of a real GPU would else be taken for host memory.
TEST(SoftNicMemory, AddressesWithoutMemoryCannotBeRegistered) {
  choose_nic("peermem=1");
  constexpr size_t kBytes = 8192;
  void* const nothing = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  const RdmaDevice device("soft_0", {}, [](ibv_device*) { return true; });
  EXPECT_TRUE(throws(ErrorCode::kFabric, {"soft_0 cannot register 8192 bytes of host memory: Bad address"}, [&] {
    register_memory(device, static_cast<std::byte*>(nothing), kBytes, MemoryOrdering::kStrict);
  }));
  munmap(nothing, kBytes);
}

}  // namespace
}  // namespace mk::test
