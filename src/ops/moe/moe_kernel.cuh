// SPDX-License-Identifier: MIT
// ops/moe/moe_kernel.cuh — the persistent kernel of moe_dispatch_gemm.
//
// A warp of each compute block dispatches; warps of communication blocks send.  In a compute block the load job alone
// knows the tiles, as they follow from the counts of all ranks: it waits for a tile's rows and hands the tile to the
// other jobs through a queue.  A warp beside them copies the origins of rows to the caller.
#pragma once

#include "base/cuda_api.h"
#include "ops/moe/moe_dispatch_protocol.h"
#include "ops/moe/moe_route_body.cuh"
#include "ops/moe/moe_sm90.h"
#include "target/sm90/claiming_machine.cuh"
#include "target/sm90/communication_block.cuh"
#include "target/sm90/gemm_load.cuh"
#include "target/sm90/gemm_mixed_maths.cuh"
#include "target/sm90/gemm_store.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/tensor_map.h"
#include "target/sm90/tile_queue.cuh"
#include "target/sm90/with_config.cuh"

namespace mk::moe {

// What the jobs must know of a tile.
struct QueuedTile {
  int row = 0;
  int rows = 0;
  int col = 0;
  bool is_here = false;  // its rows came in time
};

// A block does not know which of its tiles is the last.
template <class Config>
using Rows = sm90::MixedBoxes<Config, 1>;

template <class Config, class Element>
struct MoeShared {
  sm90::GemmShared<Config, Element> gemm;
  sm90::TileQueue<QueuedTile> tiles;
};
// The consumers' threads, the store thread and the warp that copies origins.
template <class Config>
constexpr int kTakers = 128 * Config::kConsumers + 1 + 32;

// The load job works tiles out and needs more than that of a plain GEMM; so the consumers have fewer.
constexpr int kJobRegisters = 88;
constexpr int kMathsRegisters = 208;
static_assert(sm90::registers_fit(kJobRegisters, 2, kMathsRegisters));

template <class Config, class Element>
constexpr size_t kBlockShared = sm90::kSharedFor<MoeShared<Config, Element>, sm90::BulkBuffers>;

// What RouteBody keeps, in pieces of either kind of worker.
template <class Config>
constexpr bool kScratchFits = 2 * kMostGpuExperts* kWord <= sm90::BulkPieces::kPieces* Config::kInsidePieceBytes;

template <class Pace>
struct Params {
  RankView view;
  Layout layout;
  Operands operands;
  CUtensorMap rows;
  CUtensorMap w;
  CUtensorMap y;
  [[no_unique_address]] typename Pace::Setting pace;
};

// LoadMachine: of the load job.
template <class Config, class Element, BOrder kOrder, class LoadMachine, class Pace>
__device__ void load_tiles(const Params<Pace>& p, const Post& post, int worker, MoeShared<Config, Element>& shared) {
  if (sm90::is_one_lane()) {
    shared.tiles.prepare(kTakers<Config>);
    for (const CUtensorMap* map : {&p.rows, &p.w}) sm90::prefetch_tensor_map(map);
  }
  __syncwarp();
  LoadMachine machine(p.view, post, worker, /*part=*/1);
  sm90::LoadJob<Config, Element, kOrder> job(shared.gemm);
  job.meet();
  sm90::TileGiver<QueuedTile> giver(shared.tiles);
  const int k_blocks = sm90::blocks_of_k<Config>(p.layout.k);
  bool alive = true;
  const sm90::TileOperands operands{&p.rows, &p.w, k_blocks};
  sm90::TileCoords at{.row = -1};  // of the tile before
  for_each_tile(machine, p.layout, post, [&](const ExpertTile& tile) {
    const uint64_t due = rows_due(machine, p.layout, tile);
    const bool is_first = at.row < 0;
    if (!is_first) job.load_rest(operands, at, [&] { machine.look(p.layout.arrived(tile.block), due); });
    at = {.row = static_cast<int>(tile.row), .col = tile.col_block * Config::kTileN, .b_shard = tile.expert};
    if (is_first) job.begin_b(operands, at);
    alive = alive && load_step(machine, p.layout, tile, due);
    if (sm90::is_one_lane()) giver.give({at.row, tile.rows, at.col, alive});
    __syncwarp();
    job.load_most(operands, at, [&] {
      if constexpr (requires { machine.ask(); }) machine.ask();
    });
    return true;
  });
  if (at.row >= 0) job.load_rest(operands, at, [] {});
  job.finish();
  if (sm90::is_one_lane()) giver.end();
  __syncwarp();
  machine.close();
}

template <class Config, class Element, BOrder kOrder, class Pace>
__device__ __forceinline__ void multiply_tiles(const Params<Pace>& p, MoeShared<Config, Element>& shared) {
  const int k_blocks = sm90::blocks_of_k<Config>(p.layout.k);
  sm90::MathsJob<Config, Element, kOrder, sm90::Staging::kTensor, Rows<Config>> job(shared.gemm);
  sm90::TileTaker<QueuedTile> tiles(shared.tiles);
  QueuedTile tile;
  while (tiles.take(tile)) job.multiply({.k_blocks = k_blocks, .row = tile.row, .col = tile.col}, sm90::Plain{});
  job.finish();
}

template <class Config, class Element, class Pace>
__device__ void store_tiles(const Params<Pace>& p, MoeShared<Config, Element>& shared) {
  sm90::prefetch_tensor_map(&p.y);
  sm90::StoreJob<Config, Element> job(shared.gemm);
  sm90::TileTaker<QueuedTile> tiles(shared.tiles);
  QueuedTile tile;
  while (tiles.take(tile)) {
    job.template store<Rows<Config>>([&](const Element* box, int row, int col) {
      if (!tile.is_here || row >= tile.rows) return;
      const int rows = min_of(Rows<Config>::kRows, tile.rows - row);
      const auto to = sm90::RaggedRows::box(tile.col + col, tile.row + row, rows, Rows<Config>::kRows);
      sm90::store_result(&p.y, to.at, box);
    });
  }
  job.finish_reads();
}

// One warp.
template <class Config, class Element, class Pace>
__device__ void copy_origins(const Params<Pace>& p, MoeShared<Config, Element>& shared) {
  sm90::TileTaker<QueuedTile> tiles(shared.tiles);
  QueuedTile tile;
  while (tiles.take(tile)) {
    if (p.operands.origins == nullptr || tile.col != 0 || !tile.is_here) continue;
    const auto* const from =
        reinterpret_cast<const uint4*>(p.view.windows.resolve(p.view.world, p.layout.origin_at(p.view.rank, tile.row)));
    auto* const to = reinterpret_cast<uint4*>(p.operands.origins) + tile.row;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < tile.rows; i += 32) to[i] = __ldcg(from + i);
  }
}

// What a warp that is a worker does: one of a communication block sends, one inside a compute block dispatches.
template <class Pace>
__device__ auto sending(const Params<Pace>& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces&) { send(machine, p.layout, post); };
}
template <class Pace>
__device__ auto dispatching(const Params<Pace>& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces& pieces) MK_INLINE_LAMBDA {
    RouteBody body(p.view, p.layout, p.operands, pieces.data);
    dispatch(machine, p.layout, post, body);
  };
}

template <class Config, class Element, BOrder kOrder, class LoadMachine = sm90::ClaimingMachine, class Pace>
__device__ __forceinline__ void compute_block(const Params<Pace>& p, const Post& post, int worker, std::byte* memory) {
  auto& shared = *reinterpret_cast<MoeShared<Config, Element>*>(memory);
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();
    sm90::take_registers<kMathsRegisters>();
    multiply_tiles<Config, Element, kOrder>(p, shared);
  } else {
    sm90::give_registers<kJobRegisters>();
    if (threadIdx.x < 32) {
      load_tiles<Config, Element, kOrder, LoadMachine>(p, post, worker, shared);
    } else {
      if (threadIdx.x < 64) sm90::prepare_stores(shared.gemm);
      sm90::begin_jobs<Config>();
      if (threadIdx.x < 64) {
        if (sm90::is_one_lane()) store_tiles(p, shared);
      } else if (threadIdx.x < 96) {
        copy_origins(p, shared);
      } else if (p.layout.roles.has_inside()) {  // not where the GEMM is timed alone
        const Post inside = p.layout.roles.post_inside(1, post.index);
        sm90::run_worker<Pace>(p.view, inside, worker + 1, p.pace, shared.gemm.inside.pieces(), dispatching(p));
      }
    }
  }
}

template <class Config, class Element, BOrder kOrder, class Pace>
__global__ void __launch_bounds__(Config::kThreads, 1) moe_kernel(const __grid_constant__ Params<Pace> p) {
  std::byte* const memory = sm90::block_memory();
  const Roster& roles = p.layout.roles;
  const int compute = static_cast<int>(blockIdx.x) - sm90::communication_blocks(roles);
  if (compute >= 0) {
    const Post post{Layout::kCompute, compute, roles.num_compute()};
    compute_block<Config, Element, kOrder>(p, post, roles.compute_worker(compute), memory);
  } else {
    sm90::run_communication_block<Pace>(p.view, roles, p.pace, memory, sending(p));
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// Every configuration's kernel.
template <class Element, BOrder kOrder, class Pace>
void load_moe() {
  sm90::for_each_config<MoeConfigs>([&]<class Config>() {
    load_kernel(reinterpret_cast<const void*>(moe_kernel<Config, Element, kOrder, Pace>),
                kBlockShared<Config, Element>);
  });
}

template <class Config, BOrder kOrder, class Pace>
Params<Pace> make_params(const Layout& layout, const RankView& view, const runtime::Plan& plan,
                         const MoeDispatchGemmArgs& args, const typename Pace::Setting& pace) {
  const DType dtype = args.w.dtype;
  Params<Pace> params{.view = view, .layout = layout, .operands = operands_of(args)};
  params.pace = pace;
  const sm90::ShardedMatrix rows{plan.window(kRowsWindow, view.rank), dtype, layout.k, layout.max_rows, 1};
  params.rows = sm90::make_tensor_map(rows, Config::kTileK, Config::kTileM);
  params.w = sm90::make_right_map<Config, kOrder>(args.w.data, dtype, layout.n, layout.k, layout.local_experts());
  const sm90::RaggedRows ragged{.cols = layout.n, .rows = layout.max_rows, .box_rows = Rows<Config>::kRows};
  params.y = sm90::make_ragged_map(args.y.data, dtype, ragged, Rows<Config>::kCols);
  return params;
}

template <class Config, class Element, BOrder kOrder, class Pace>
void launch_moe(const Layout& layout, const RankView& view, const runtime::Plan& plan, const MoeDispatchGemmArgs& args,
                const typename Pace::Setting& pace, cudaStream_t stream) {
  static_assert(Config::kCluster == 1 && kBlockShared<Config, Element> <= sm90::kSharedLimit && kScratchFits<Config>);
  const auto params = make_params<Config, kOrder, Pace>(layout, view, plan, args, pace);
  cudaLaunchConfig_t config{};
  config.gridDim = sm90::num_blocks(layout.roles);
  config.blockDim = Config::kThreads;
  config.dynamicSmemBytes = kBlockShared<Config, Element>;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, moe_kernel<Config, Element, kOrder, Pace>, params),
             "launch moe_dispatch_gemm");
}

// Queues the launch of one rank.
template <class Element, BOrder kOrder, class Pace>
void launch_moe(const Layout& layout, const RankView& view, const runtime::Plan& plan, const MoeDispatchGemmArgs& args,
                const typename Pace::Setting& pace, cudaStream_t stream) {
  sm90::with_tile<MoeConfigs>({layout.tile_m, layout.tile_n, 1}, [&]<class Config>() {
    launch_moe<Config, Element, kOrder, Pace>(layout, view, plan, args, pace, stream);
  });
}

template <DType kDType, BOrder kOrder>
void MoeLauncher<kDType, kOrder>::load() {
  load_moe<sm90::ElementOf<kDType>, kOrder, sm90::NoPace>();
}

template <DType kDType, BOrder kOrder>
void MoeLauncher<kDType, kOrder>::launch(const Layout& layout, const RankView& view, const runtime::Plan& plan,
                                         const MoeDispatchGemmArgs& args, Stream stream) {
  launch_moe<sm90::ElementOf<kDType>, kOrder, sm90::NoPace>(layout, view, plan, args, {},
                                                            static_cast<cudaStream_t>(stream));
}

}  // namespace mk::moe
