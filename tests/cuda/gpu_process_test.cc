// SPDX-License-Identifier: MIT
// tests/cuda/gpu_process_test.cc — worlds of processes on GPUs are right: windows by CUDA IPC, puts through Movers.
//
// A process that has used CUDA cannot be forked, so everything here that uses it is in a process of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "core/stamp.h"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/expect_error.h"
#include "tests/support/op_processes.h"

namespace mk::test {
namespace {

constexpr Shape kShape{37, 72, 72};

Options options_of(const std::string& net) {
  Options options{.timeout_ms = 20'000};
  options.net = net;
  return options;
}

std::string missing_gpu() {
  constexpr size_t kMostBytes = 1000;
  const CommonMemory said(kMostBytes + 1);
  const auto ask = [&](int) {
    std::strncpy(reinterpret_cast<char*>(said.data()), runtime::why_no_cuda().c_str(), kMostBytes);
    return true;
  };
  if (!processes_do(1, ask)) return "a process that asked for a GPU failed";
  return reinterpret_cast<const char*>(said.data());
}

class OnGpus {
 public:
  static void skip_without() {
    static const std::string missing = missing_gpu();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

class GpuProcess : public testing::Test {
 protected:
  void SetUp() override { OnGpus::skip_without(); }
};

struct WorldAndNet {
  WorldShape world;
  std::string net;
};

std::string name_of(const WorldAndNet& at) { return name_of(at.world) + "_" + at.net; }

class GpuProcesses : public testing::TestWithParam<std::tuple<Op, WorldAndNet>> {
 protected:
  void SetUp() override { OnGpus::skip_without(); }

  // All launches are queued before one is waited for.
  testing::AssertionResult run_right(const Shape& problem, int count) const {
    const auto& [op, at] = GetParam();
    const WorldShape shape = at.world;
    const std::string net = at.net;
    std::vector<OpLaunch> launches;
    for (int i = 0; i < count; ++i) {
      launches.emplace_back(op, shape, OpCase{problem, DType::kBf16}, seed_of(1, i));
    }
    const std::string id = World::unique_id();
    return processes_leave_right(shape, launches, [&](int rank) {
      World world = World::join(id, rank, shape.nodes, shape.ranks, DeviceKind::kCuda, options_of(net));
      std::vector<GpuLaunch> on_gpu;
      for (OpLaunch& launch : launches) on_gpu.emplace_back(world, launch);
      for (const GpuLaunch& launch : on_gpu) launch.enqueue(world);
      world.synchronize();
      for (size_t i = 0; i < launches.size(); ++i) on_gpu[i].fetch_into(launches[i]);
    });
  }
};

const auto kWorldsAndNets =
    testing::Values(WorldAndNet{{1, 1}, "auto"}, WorldAndNet{{1, 2}, "auto"}, WorldAndNet{{2, 1}, "tcp"},
                    WorldAndNet{{2, 1}, "shm"}, WorldAndNet{{2, 2}, "tcp"}, WorldAndNet{{2, 2}, "shm"});

INSTANTIATE_TEST_SUITE_P(Worlds, GpuProcesses, testing::Combine(testing::ValuesIn(kOps), kWorldsAndNets), joined_names);

TEST_P(GpuProcesses, TwentyQueuedLaunchesAreRight) { EXPECT_TRUE(run_right({37, 72, 72}, 20)); }

// Shards that take many slots of the staged fabric, and fill every SM that a rank has.
class GpuProcessesLarge : public GpuProcesses {};

INSTANTIATE_TEST_SUITE_P(Worlds, GpuProcessesLarge, testing::Combine(testing::Values(Op::kAgGemm), kWorldsAndNets),
                         joined_names);

TEST_P(GpuProcessesLarge, LargeShardsAreRight) { EXPECT_TRUE(run_right({1030, 264, 520}, 1)); }

TEST_F(GpuProcess, AutoIsAGpuWhereAllRanksHaveOne) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    const World world = World::join(id, rank, 1, 2, DeviceKind::kAuto, options_of("auto"));
    return world.device() == DeviceKind::kCuda && world.rank_stream(rank) != nullptr;
  }));
}

// What CUDA says of it, if anything, comes second: with MPS it may be an illegal memory access.
TEST_F(GpuProcess, ARankThatDiesIsNamedByTheOthersInTime) {
  const std::string id = World::unique_id();
  EXPECT_TRUE(processes_do(2, [&](int rank) {
    World world = World::join(id, rank, 1, 2, DeviceKind::kCuda, {.timeout_ms = 10'000});  // kernels are loaded, too
    OpLaunch host(Op::kAgGemm, {1, 2}, {kShape, DType::kBf16});
    const GpuLaunch gpu(world, host);
    gpu.enqueue(world);
    world.synchronize();
    world.state().exchange("", "the first launch of both");
    if (rank == 1) _exit(0);
    const auto start = std::chrono::steady_clock::now();
    return throws(ErrorCode::kFabric, {"rank 1 is gone"},
                  [&] {
                    gpu.enqueue(world);
                    world.synchronize();
                  }) &&
           std::chrono::steady_clock::now() - start < std::chrono::seconds(11);
  }));
}

TEST_F(GpuProcess, WhatIsNoHandleOfMemoryIsRefused) {
  EXPECT_TRUE(processes_do(1, [](int) {
    const auto device = runtime::make_cuda_device(1);
    return static_cast<bool>(refuses({"'window' is no handle"}, [&] { device->open_window("window", 8); }));
  }));
}

// A Mover and host memory of this process, pinned.
class MoverBench {
 public:
  static constexpr size_t kPieces = 100, kPieceBytes = 4000;  // no multiple of a page

  MoverBench()
      : device_(runtime::make_cuda_device(runtime::GpuSeat{0, 0, 2})),
        window_(device_->allocate_window(2 * kPieces * kPieceBytes)),
        signals_(device_->allocate_window(2 * sizeof(uint64_t))),
        mover_(device_->make_mover(0)),
        host_(2 * kPieces * kPieceBytes) {
    mover_->pin(host_.data(), 2 * kPieces * kPieceBytes);
  }
  ~MoverBench() { mover_->unpin(host_.data()); }

  Mover& mover() { return *mover_; }
  std::byte* from(size_t piece) { return host_.data() + piece * kPieceBytes; }
  std::byte* back(size_t piece) { return from(kPieces + piece); }
  // In another order than on the host.
  std::byte* there(size_t piece) { return window_.data.get() + (2 * kPieces - 1 - 2 * piece) * kPieceBytes; }
  uint64_t* signal(int number) { return reinterpret_cast<uint64_t*>(signals_.data.get()) + number; }

  uint64_t held_by(int number) {
    uint64_t value = 0;
    device_->download(&value, signal(number), sizeof(value));
    return value;
  }

  // The tokens of `count` copies in the order they came back; fewer if they do not come in time.
  std::vector<uint64_t> wait_for(size_t count) {
    std::vector<uint64_t> done;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (done.size() < count && std::chrono::steady_clock::now() < deadline) mover_->poll(done);
    return done;
  }

 private:
  std::unique_ptr<runtime::Device> device_;
  runtime::WindowMemory window_, signals_;
  std::unique_ptr<Mover> mover_;
  CommonMemory host_;
};

std::vector<uint64_t> counting(size_t count) {
  std::vector<uint64_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = i;
  return tokens;
}

bool lands_in_order_and_pays_totals() {
  MoverBench bench;
  for (size_t i = 0; i < MoverBench::kPieces; ++i) {
    std::memset(bench.from(i), static_cast<int>(i + 1), MoverBench::kPieceBytes);
    uint64_t* const signal = i % 10 == 9 ? nullptr : bench.signal(static_cast<int>(i % 2));
    bench.mover().land(bench.there(i), bench.from(i), MoverBench::kPieceBytes, signal, {i, 0}, i);
  }
  if (bench.wait_for(MoverBench::kPieces) != counting(MoverBench::kPieces)) return false;
  uint64_t paid[2] = {};
  for (size_t i = 0; i < MoverBench::kPieces; ++i) paid[i % 2] += i % 10 == 9 ? 0 : i;
  if (bench.held_by(0) != paid[0] || bench.held_by(1) != paid[1]) return false;

  for (size_t i = 0; i < MoverBench::kPieces; ++i) {
    bench.mover().read(bench.back(i), bench.there(i), MoverBench::kPieceBytes, i);
  }
  if (bench.wait_for(MoverBench::kPieces) != counting(MoverBench::kPieces)) return false;
  for (size_t i = 0; i < MoverBench::kPieces; ++i) {
    if (std::memcmp(bench.from(i), bench.back(i), MoverBench::kPieceBytes) != 0) return false;
  }
  return true;
}

bool grows_by_what_each_landing_pays() {
  MoverBench bench;
  for (uint64_t i = 1; i <= 10; ++i) {
    bench.mover().land(bench.there(0), bench.from(0), i % 2 * MoverBench::kPieceBytes, bench.signal(0), {1, 0}, i);
    if (bench.wait_for(1) != std::vector{i} || bench.held_by(0) != i) return false;
  }
  return true;
}

// Each comes by itself, and in any order: with bytes and without, skipping epochs, the same again, a smaller one late.
bool holds_the_largest_stamp() {
  MoverBench bench;
  constexpr uint64_t kStamps[] = {stamp_of(1, 5), stamp_of(1'000'000, 2), stamp_of(3, 9), stamp_of(1'000'000, 2),
                                  stamp_of(1'000'000, 3)};
  uint64_t largest = 0;
  for (uint64_t i = 0; i < std::size(kStamps); ++i) {
    bench.mover().land(bench.there(0), bench.from(0), i % 2 * MoverBench::kPieceBytes, bench.signal(0), {7, kStamps[i]},
                       i);
    largest = std::max(largest, kStamps[i]);
    if (bench.wait_for(1) != std::vector{i} || bench.held_by(0) != largest) return false;
  }
  // And together: what is written last is the largest as well.
  for (const uint64_t i : {0, 1, 2, 3}) {
    const uint64_t stamp = stamp_of(2'000'000 - i, 0);
    bench.mover().land(nullptr, nullptr, 0, bench.signal(0), {7, stamp}, i);
    bench.mover().land(nullptr, nullptr, 0, bench.signal(1), {7, 0}, 4 + i);
  }
  return bench.wait_for(8).size() == 8 && bench.held_by(0) == stamp_of(2'000'000, 0) && bench.held_by(1) == 28;
}

// As where a NIC reaches the windows; nobody writes into them here.
bool settles_and_pays_without_bytes() {
  MoverBench bench;
  bench.mover().find(bench.there(0), MoverBench::kPieceBytes);  // whether the driver hands out a DMA-BUF or not
  if (bench.mover().why_not_settled().empty()) bench.mover().settle();
  bench.mover().land(nullptr, nullptr, 0, bench.signal(1), {3, 0}, 7);
  return bench.wait_for(1) == std::vector<uint64_t>{7} && bench.held_by(1) == 3;
}

TEST_F(GpuProcess, AMoverLandsInOrderPaysTotalsAndReadsBack) {
  EXPECT_TRUE(processes_do(1, [](int) { return lands_in_order_and_pays_totals(); }));
}

TEST_F(GpuProcess, ASignalGrowsByWhatEachLandingPaysEvenWithoutBytes) {
  EXPECT_TRUE(processes_do(1, [](int) { return grows_by_what_each_landing_pays(); }));
}

TEST_F(GpuProcess, ASignalHoldsTheLargestStampThatHasLanded) {
  EXPECT_TRUE(processes_do(1, [](int) { return holds_the_largest_stamp(); }));
}

TEST_F(GpuProcess, AMoverWithoutHostMemorySettlesAndPays) {
  EXPECT_TRUE(processes_do(1, [](int) { return settles_and_pays_without_bytes(); }));
}

}  // namespace
}  // namespace mk::test
