// SPDX-License-Identifier: MIT
// tests/cuda/gpu_parcels_test.cu — an operator with values, stamps, thresholds and three roles that put, on a GPU.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "base/cuda_api.h"
#include "ops/plan_spec.h"
#include "target/sm90/communication_block.cuh"
#include "tests/cuda/gpu_launch.h"
#include "tests/support/parcels_data.h"
#include "tests/support/worlds.h"

namespace mk::test {
namespace {

constexpr int kThreads = 32 * sm90::kWorkersPerSm;
constexpr size_t kShared = sizeof(sm90::BulkBuffers) + 1024;

struct Params {
  RankView view;
  parcels::Layout layout;
};

// Workers that receive have a block each, of which one warp works.
__global__ void __launch_bounds__(kThreads, 1) parcels_kernel(const __grid_constant__ Params p) {
  std::byte* const memory = sm90::block_memory();
  const Roster& roles = p.layout.roles;
  const auto work = [&](auto& machine, const Post& post, const sm90::BulkPieces&) {
    parcels::work(machine, p.layout, post);
  };
  const int compute_block = static_cast<int>(blockIdx.x) - sm90::communication_blocks(roles);
  if (compute_block < 0) {
    sm90::run_communication_block<sm90::NoPace>(p.view, roles, {}, memory, work);
  } else if (threadIdx.x < 32) {
    const sm90::BulkPieces pieces = reinterpret_cast<sm90::BulkBuffers*>(memory)->pieces(0);
    const int worker = roles.compute_worker(compute_block);
    sm90::run_worker<sm90::NoPace>(p.view, roles.post_of(worker), worker, {}, pieces, work);
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// The inputs of a rank's launch on the GPU.
struct Inputs {
  Inputs(runtime::Device& device, const std::vector<std::byte>& rows, const std::vector<std::byte>& counts)
      : rows_(device, rows.size()), counts_(device, counts.size()) {
    device.upload(rows_.as<void>(), rows.data(), rows.size());
    device.upload(counts_.as<void>(), counts.data(), counts.size());
  }
  runtime::Buffer rows_;
  runtime::Buffer counts_;
};

// parcels::kKept launches queue back to back, and all are checked; so often that there are `launches` of them.
testing::AssertionResult parcels_arrive(const WorldShape& shape, const parcels::Layout& layout, int launches,
                                        uint64_t seed, const Options& options = {.timeout_ms = 5000}) {
  constexpr std::byte kPoison{0xa5};
  World world = gpu_world(shape, options);
  runtime::WorldState& state = world.state();
  runtime::Device& device = state.device();
  load_kernel(reinterpret_cast<const void*>(parcels_kernel), kShared);
  const parcels::Data data(shape, seed);
  runtime::Plan& plan = state.plan("parcels", [&] { return plan_spec(layout); });
  const uint64_t bytes = window_bytes(layout).back();
  for (uint64_t first = 1; first <= static_cast<uint64_t>(launches); first += parcels::kKept) {
    const std::vector<std::byte> poison(bytes, kPoison);
    std::vector<std::unique_ptr<Inputs>> inputs;
    for (int rank = 0; rank < shape.size(); ++rank) {
      device.upload(plan.window(parcels::kReceivedWindow, rank), poison.data(), bytes);
      for (uint64_t launch = 0; launch < parcels::kKept; ++launch) {
        inputs.push_back(
            std::make_unique<Inputs>(device, data.rows(rank, first + launch), data.counts(rank, first + launch)));
      }
    }
    device.synchronize();
    for (uint64_t launch = 0; launch < parcels::kKept; ++launch) {
      for (int rank = 0; rank < shape.size(); ++rank) {
        const Inputs& own = *inputs[rank * parcels::kKept + launch];
        Params params{plan.view(rank), layout};
        params.view.windows.inputs[0] = own.rows_.as<std::byte>();
        params.view.windows.inputs[1] = own.counts_.as<std::byte>();
        const auto stream = static_cast<cudaStream_t>(world.rank_stream(rank));
        parcels_kernel<<<sm90::num_blocks(layout.roles), kThreads, kShared, stream>>>(params);
        check_cuda(cudaGetLastError(), "launch parcels");
      }
    }
    world.synchronize();
    std::vector<std::byte> received(bytes);
    for (int rank = 0; rank < shape.size(); ++rank) {
      device.download(received.data(), plan.window(parcels::kReceivedWindow, rank), bytes);
      for (uint64_t launch = 0; launch < parcels::kKept; ++launch) {
        const auto right = data.has_arrived(layout, rank, first + launch, received.data(), kPoison);
        if (!right) return right;
      }
    }
  }
  return testing::AssertionSuccess();
}

class GpuParcels : public testing::TestWithParam<WorldShape> {};
INSTANTIATE_TEST_SUITE_P(Worlds, GpuParcels,
                         testing::Values(WorldShape{1, 1}, WorldShape{1, 2}, WorldShape{1, 4}, WorldShape{2, 1},
                                         WorldShape{2, 2}, WorldShape{2, 4}, WorldShape{3, 2}, WorldShape{4, 1}),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(GpuParcels, AllArriveLaunchAfterLaunch) {
  MK_NEEDS_GPU();
  for (const auto& [count, send, receive] : {std::tuple{1, 1, 1}, std::tuple{2, 5, 3}, std::tuple{1, 12, 4}}) {
    for (const uint64_t seed : {1, 2, 3}) {
      const parcels::Layout layout = parcels::layout_of(GetParam(), count, send, receive);
      EXPECT_TRUE(parcels_arrive(GetParam(), layout, 30, seed)) << count << ", " << send << ", " << receive;
    }
  }
}

// Workers that have an SM of their own.
TEST_P(GpuParcels, SeatsDoNotChangeWhatArrives) {
  MK_NEEDS_GPU();
  const parcels::Layout own{GetParam(), {{2, Seating::kOwn}, {3}, {2}}};
  EXPECT_TRUE(parcels_arrive(GetParam(), own, 20, 5));
  const parcels::Layout mixed{GetParam(), {{1}, {2, Seating::kOwn}, {3}}};
  EXPECT_TRUE(parcels_arrive(GetParam(), mixed, 20, 6));
}

TEST(GpuParcelsRing, OfOneCommandIsEnough) {
  MK_NEEDS_GPU();
  EXPECT_TRUE(
      parcels_arrive({2, 2}, parcels::layout_of({2, 2}, 1, 4, 2), 30, 9, {.timeout_ms = 5000, .ring_capacity = 1}));
}

}  // namespace
}  // namespace mk::test
