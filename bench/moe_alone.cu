// SPDX-License-Identifier: MIT
// bench/moe_alone.cu — see moe_alone.h.
//
// The kernel is that of the library without routing and dispatch: rows, counts and the plan lie in the windows as the
// launch before left them, so nothing is waited for.  Tiles still follow from the counts, which the device reads.
#include "bench/moe_alone.h"
#include "ops/moe/moe_kernel.cuh"
#include "ops/moe/moe_plan_spec.h"
#include "ops/moe/moe_targets.h"
#include "runtime/kernel_registry.h"

namespace mk::bench {
namespace {

using Element = __nv_bfloat16;
using Params = moe::Params<sm90::NoPace>;

struct NoWaits : sm90::Sm90Machine<sm90::WarpCrew> {
  __device__ NoWaits(const RankView& view, const Post& post, int worker, int part)
      : Sm90Machine(view, post, worker, {}, sm90::NoPace(), part) {}
  __device__ bool wait(uint32_t, uint64_t, int64_t) { return true; }
  __device__ void look(uint32_t, uint64_t) {}
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1) grouped_kernel(const __grid_constant__ Params p) {
  const Post post{moe::Layout::kCompute, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x)};
  moe::compute_block<Config, Element, BOrder::kNK, NoWaits>(p, post, 0, sm90::block_memory());
}

const runtime::KernelLoader kLoad([] {
  sm90::for_each_config<moe::MoeConfigs>([&]<class Config>() {
    load_kernel(reinterpret_cast<const void*>(grouped_kernel<Config>), moe::kBlockShared<Config, Element>);
  });
});

}  // namespace

void launch_alone(runtime::WorldState& world, const MoeShape& shape, const Split& split,
                  const MoeDispatchGemmArgs& args) {
  const moe::Problem problem = moe::problem_of(world.shape(), world.members(), shape, {&args, 1});
  const runtime::Plan& plan = moe::plan_for(world, problem, split);
  moe::Layout layout = plan.layout<moe::Layout>();
  const int blocks = sm90::num_blocks(layout.roles);
  layout.roles = Roster{{0}, {0}, {blocks}};
  sm90::with_tile<moe::MoeConfigs>({layout.tile_m, layout.tile_n, 1}, [&]<class Config>() {
    const Params params = moe::make_params<Config, BOrder::kNK, sm90::NoPace>(layout, plan.view(0), plan, args, {});
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = Config::kThreads;
    config.dynamicSmemBytes = moe::kBlockShared<Config, Element>;
    config.stream = static_cast<cudaStream_t>(args.stream);
    check_cuda(cudaLaunchKernelEx(&config, grouped_kernel<Config>, params), "launch a grouped GEMM");
  });
}

}  // namespace mk::bench
