// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_sm90.cu — AllGather+GEMM as one persistent kernel.
#include <algorithm>
#include <mutex>

#include "base/cuda_api.h"
#include "ops/ag_gemm/ag_gemm_configs.h"
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/ag_gemm/ag_gemm_targets.h"
#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/gemm_engine.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/tensor_map.h"
#include "target/sm90/warp_crew.cuh"

namespace mk::ag_gemm_op {
namespace {

using sm90::GemmShape;
using sm90::GemmShared;

static_assert(kSm90Tile.m == GemmShape::kTileM && kSm90Tile.n == GemmShape::kTileN);

struct Params {
  RankView view;
  Layout layout;
  CUtensorMap own;       // this rank's rows, where the caller has them
  CUtensorMap gathered;  // everybody else's, in the window
  CUtensorMap b;
  CUtensorMap c;
};

__device__ sm90::TileCoords coords(const Layout& layout, const Tile& tile, int rank) {
  return {tile.row_block * layout.tile_m, tile.source == rank ? 0 : tile.source, tile.source,
          tile.col_block * layout.tile_n};
}

template <class Element>
__device__ void load_tiles(const Params& p, const Post& post, GemmShared<Element>& shared) {
  sm90::Sm90Machine<SoloCrew> machine(p.view, post, nullptr);
  sm90::LoadJob<Element> job(shared, &p.b, p.layout.k);
  bool alive = true;
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    alive = alive && wait_for_rows(machine, p.layout, tile);
    if (alive) {
      job.load(tile.source == p.view.rank ? &p.own : &p.gathered, coords(p.layout, tile, p.view.rank));
    } else {
      job.pass_void();
    }
    return true;
  });
}

template <class Element>
__device__ void multiply_tiles(const Params& p, const Post& post, GemmShared<Element>& shared) {
  sm90::MathsJob<Element> job(shared, p.layout.k, threadIdx.x / 128 - 1, threadIdx.x % 128);
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    job.multiply_and_store(&p.c, coords(p.layout, tile, p.view.rank));
    return true;
  });
  job.finish();
}

template <class Element>
__device__ void compute(const Params& p, const Post& post, std::byte* memory) {
  auto& shared = *reinterpret_cast<GemmShared<Element>*>(memory);
  if (threadIdx.x == 0) sm90::prepare_gemm(shared);
  __syncthreads();
  if (threadIdx.x < 128) {
    sm90::give_registers<GemmShape::kLoadRegisters>();
    if (threadIdx.x == 0) load_tiles<Element>(p, post, shared);
  } else {
    sm90::take_registers<GemmShape::kMathsRegisters>();
    multiply_tiles<Element>(p, post, shared);
  }
}

__device__ void move_chunks(const Params& p, const Post& post, std::byte* memory) {
  auto& pieces = *reinterpret_cast<sm90::BulkPieces*>(memory);
  if (threadIdx.x >= 32) return;
  if (threadIdx.x == 0) sm90::BulkCopier::prepare(pieces);
  __syncwarp();
  sm90::Sm90Machine<sm90::WarpCrew> machine(p.view, post, &pieces);
  communicate(machine, p.layout, post);
  machine.close();
}

template <class Element>
__global__ void __launch_bounds__(GemmShape::kThreads, 1) ag_gemm_kernel(const __grid_constant__ Params p) {
  extern __shared__ std::byte dynamic[];
  std::byte* const memory = dynamic + (-sm90::shared_address(dynamic) & 1023);
  const Post post = p.layout.roles.post_of(blockIdx.x);
  if (post.role == Role::kCompute) {
    compute<Element>(p, post, memory);
  } else {
    move_chunks(p, post, memory);
  }
  __syncthreads();  // every thread has read the epoch and done its work
  if (threadIdx.x == 0) sm90::SystemAtomics::add_relaxed(p.view.exits, 1);
}

template <class Element>
void launch(const Params& params, cudaStream_t stream) {
  constexpr size_t kSharedBytes = std::max(sizeof(GemmShared<Element>), sizeof(sm90::BulkPieces)) + 1024;
  static std::once_flag prepared;
  std::call_once(prepared, [] {
    check_cuda(cudaFuncSetAttribute(ag_gemm_kernel<Element>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
               "reserve shared memory for ag_gemm");
  });
  ag_gemm_kernel<Element><<<params.view.workers, GemmShape::kThreads, kSharedBytes, stream>>>(params);
  check_cuda(cudaGetLastError(), "launch ag_gemm");
}

}  // namespace

void launch_sm90(runtime::WorldState& world, const runtime::Plan& plan, int rank, const AgGemmArgs& args) {
  Params params{plan.view(rank), plan.layout<Layout>(), {}, {}, {}, {}};
  params.view.windows.input = static_cast<const std::byte*>(args.a.data);
  const Layout& layout = params.layout;
  const DType dtype = args.a.dtype;
  const int shards = layout.world.size();
  const void* gathered = shards > 1 ? plan.window(kGatheredWindow, rank) : args.a.data;
  params.own =
      sm90::make_tensor_map({args.a.data, dtype, layout.k, layout.shard_rows, 1}, GemmShape::kTileK, GemmShape::kTileM);
  params.gathered = sm90::make_tensor_map({gathered, dtype, layout.k, layout.shard_rows, shards}, GemmShape::kTileK,
                                          GemmShape::kTileM);
  params.b = sm90::make_tensor_map({args.b.data, dtype, layout.n, layout.k, 1}, GemmShape::kBoxCols, GemmShape::kTileK);
  params.c = sm90::make_tensor_map({args.c.data, dtype, layout.n, layout.shard_rows, shards}, GemmShape::kBoxCols,
                                   GemmShape::kRowsPerConsumer);
  const Stream chosen = args.stream != nullptr ? args.stream : world.device().stream(rank);
  const auto stream = static_cast<cudaStream_t>(chosen);
  if (dtype == DType::kBf16) {
    launch<__nv_bfloat16>(params, stream);
  } else {
    launch<__half>(params, stream);
  }
}

}  // namespace mk::ag_gemm_op
