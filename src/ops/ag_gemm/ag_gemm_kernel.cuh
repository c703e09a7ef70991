// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_kernel.cuh — AllGather+GEMM as one persistent kernel.
#pragma once

#include "base/cuda_api.h"
#include "ops/ag_gemm/ag_gemm_configs.h"
#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "ops/ag_gemm/ag_gemm_sm90.h"
#include "target/sm90/bulk_copier.cuh"
#include "target/sm90/communication_block.cuh"
#include "target/sm90/gemm_load.cuh"
#include "target/sm90/gemm_maths.cuh"
#include "target/sm90/gemm_store.cuh"
#include "target/sm90/tensor_map.h"
#include "target/sm90/with_config.cuh"

namespace mk::ag_gemm_op {

template <class Pace>
struct Params {
  RankView view;
  Layout layout;
  CUtensorMap own;       // this rank's rows, where the caller has them
  CUtensorMap gathered;  // everybody else's, in the window
  CUtensorMap b;
  CUtensorMap c;
  CUtensorMap c_narrow;  // the same in narrow boxes, for a configuration that has them
  const void* bias;      // [n] or null
  Activation activation;
  [[no_unique_address]] typename Pace::Setting pace;
};

template <class Config>
__device__ sm90::TileCoords coords(const Layout& layout, const Tile& tile, int rank) {
  const int in_cluster = Config::kCluster > 1 ? static_cast<int>(sm90::block_in_cluster()) * Config::kTileM : 0;
  return {tile.row_block * layout.tile_m + in_cluster, tile.source == rank ? 0 : tile.source, tile.source,
          tile.col_block * layout.tile_n};
}

template <class Config, class Element, BOrder kOrder, class Pace>
__device__ void load_tiles(const Params<Pace>& p, const Post& post, int worker,
                           sm90::GemmShared<Config, Element>& shared) {
  if (sm90::is_one_lane()) {
    for (const CUtensorMap* map : {&p.own, &p.b}) sm90::prefetch_tensor_map(map);
  }
  sm90::Sm90Machine<sm90::WarpCrew> machine(p.view, post, worker, {}, sm90::NoPace());
  const int k_blocks = sm90::blocks_of_k<Config>(p.layout.k);
  sm90::LoadJob<Config, Element, kOrder> job(shared);
  if (post.index < p.layout.per_shard.by()) {  // at once: own rows are not waited for
    job.begin({&p.own, &p.b, k_blocks},
              coords<Config>(p.layout, own_tile_at(p.layout, p.view.rank, post.index), p.view.rank));
  }
  bool alive = true;
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    if (alive && !before_load(machine, p.layout, tile)) {
      alive = false;
      job.give_up();
    }
    job.load({tile.source == p.view.rank ? &p.own : &p.gathered, &p.b, k_blocks},
             coords<Config>(p.layout, tile, p.view.rank));
    return true;
  });
  job.finish();
}

template <class Config, class Element, class Pace>
__device__ void store_tiles(const Params<Pace>& p, const Post& post, sm90::GemmShared<Config, Element>& shared) {
  sm90::prefetch_tensor_map(&p.c);
  sm90::StoreJob<Config, Element> job(shared);
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    const sm90::TileCoords at = coords<Config>(p.layout, tile, p.view.rank);
    const auto send_box = [&](const Element* box, int row, int col) {
      const CUtensorMap* c = Config::is_narrow(col) ? &p.c_narrow : &p.c;
      sm90::store_result(c, {at.col + col, at.row + row, at.c_shard}, box);
    };
    job.store_one(tiles_after(tile.number, post, p.layout.num_tiles()), send_box);
    return true;
  });
  job.finish_reads();
}

template <class Config, class Element, BOrder kOrder, class Pace>
__device__ void multiply_tiles(const Params<Pace>& p, const Post& post, sm90::GemmShared<Config, Element>& shared) {
  sm90::with_epilogue<Element>(p.bias, p.layout.n, p.activation, [&](const auto& hook) {
    const int k_blocks = sm90::blocks_of_k<Config>(p.layout.k);
    sm90::MathsJob<Config, Element, kOrder> job(shared);
    for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
      const sm90::TileCoords at = coords<Config>(p.layout, tile, p.view.rank);
      job.multiply({.k_blocks = k_blocks, .row = at.row, .col = at.col}, hook);
      return true;
    });
    job.finish();
  });
}

// What a warp that communicates does.
template <class Pace>
__device__ auto communication(const Params<Pace>& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces& pieces) {
    communicate(machine, p.layout, post, pieces);
  };
}

// ptxas puts the branch not taken first: written so, the code up to the first copy lies at the kernel's beginning.
// Inlined always: a call would cost registers that the maths warps do not have.
template <class Config, class Element, BOrder kOrder, class Pace>
__device__ __forceinline__ void compute(const Params<Pace>& p, Post post, int worker, std::byte* memory) {
  auto& shared = *reinterpret_cast<sm90::GemmShared<Config, Element>*>(memory);
  post.index /= Config::kCluster;
  post.count /= Config::kCluster;
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();  // before the registers, which may have to be waited for
    sm90::take_registers<Config::kMathsRegisters>();
    multiply_tiles<Config, Element, kOrder>(p, post, shared);
  } else {
    sm90::give_registers<Config::kJobRegisters>();
    if (threadIdx.x >= 32) {
      if (threadIdx.x < 64) sm90::prepare_stores(shared);
      sm90::begin_jobs<Config>();
      if (threadIdx.x < 64) {
        if (sm90::is_one_lane()) store_tiles<Config, Element>(p, post, shared);
      } else if constexpr (Config::kRingPiece > 0) {
        if (threadIdx.x >= 96 || !p.layout.roles.has_inside()) return;
        sm90::be_worker<Pace>(p.view, p.layout.roles, worker + 1, p.pace, shared.ring.pieces(), communication(p));
      }
    } else {
      load_tiles<Config, Element, kOrder>(p, post, worker, shared);
    }
  }
}

template <class Config, class Element, BOrder kOrder, class Pace>
__global__ void __launch_bounds__(Config::kThreads, 1) ag_gemm_kernel(const __grid_constant__ Params<Pace> p) {
  extern __shared__ std::byte dynamic[];
  std::byte* const memory = dynamic + (-sm90::shared_address(dynamic) & 1023);
  const Roster& roles = p.layout.roles;
  const int compute_block = static_cast<int>(blockIdx.x) - sm90::communication_blocks(roles);
  if (compute_block < 0) {
    sm90::communicate<Pace>(p.view, roles, p.pace, memory, communication(p));
  } else {
    const int worker = roles.compute_worker(compute_block);
    compute<Config, Element, kOrder>(p, {Layout::kCompute, compute_block, roles.num_compute()}, worker, memory);
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// Every configuration's kernel.
template <class Element, BOrder kOrder, class Pace>
void load_ag_gemm() {
  sm90::for_each_config<sm90::GemmConfigs>([&]<class Config>() {
    const auto kernel = ag_gemm_kernel<Config, Element, kOrder, Pace>;
    load_kernel(reinterpret_cast<const void*>(kernel), sm90::kBlockShared<Config, Element>);
  });
}

template <class Config, class Element, BOrder kOrder, class Pace>
void launch(const Params<Pace>& params, cudaStream_t stream) {
  static_assert(sm90::kBlockShared<Config, Element> <= sm90::kSharedLimit);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {Config::kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = sm90::num_blocks(params.layout.roles);
  config.blockDim = Config::kThreads;
  config.dynamicSmemBytes = sm90::kBlockShared<Config, Element>;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = Config::kCluster > 1 ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, ag_gemm_kernel<Config, Element, kOrder, Pace>, params), "launch ag_gemm");
}

// Queues the launch of one rank.
template <class Config, class Element, BOrder kOrder, class Pace>
void launch_ag_gemm(const runtime::Plan& plan, int rank, const AgGemmArgs& args, const typename Pace::Setting& pace,
                    cudaStream_t stream) {
  Params<Pace> params{.view = plan.view(rank), .layout = plan.layout<Layout>()};
  params.view.windows.inputs[0] = static_cast<const std::byte*>(args.a.data);
  params.bias = args.bias.data;
  params.activation = args.activation;
  params.pace = pace;
  const Layout& layout = params.layout;
  const DType dtype = args.a.dtype;
  const int shards = layout.world.size();
  const void* gathered = shards > 1 ? plan.window(kGatheredWindow, rank) : args.a.data;
  params.own =
      sm90::make_tensor_map({args.a.data, dtype, layout.k, layout.shard_rows, 1}, Config::kTileK, Config::kTileM);
  params.gathered =
      sm90::make_tensor_map({gathered, dtype, layout.k, layout.shard_rows, shards}, Config::kTileK, Config::kTileM);
  params.b = sm90::make_right_map<Config, kOrder>(args.b.data, dtype, layout.n, layout.k);
  const sm90::ShardedMatrix c{args.c.data, dtype, layout.n, layout.shard_rows, shards};
  params.c = sm90::make_tensor_map(c, Config::kBox, Config::kBox);
  if constexpr (Config::kNarrowBox > 0) {
    params.c_narrow = sm90::make_tensor_map(c, Config::kNarrowBox, Config::kBox);
  }
  launch<Config, Element, kOrder>(params, stream);
}

inline sm90::GemmTile gemm_tile_of(const Layout& layout) {
  return {layout.tile_m / layout.cluster, layout.tile_n, layout.cluster};
}

template <DType kDType, BOrder kOrder>
void Launcher<kDType, kOrder>::load() {
  load_ag_gemm<sm90::ElementOf<kDType>, kOrder, sm90::NoPace>();
}

template <DType kDType, BOrder kOrder>
void Launcher<kDType, kOrder>::launch(const runtime::Plan& plan, int rank, const AgGemmArgs& args,
                                      cudaStream_t stream) {
  sm90::with_tile<sm90::GemmConfigs>(gemm_tile_of(plan.layout<Layout>()), [&]<class Config>() {
    launch_ag_gemm<Config, sm90::ElementOf<kDType>, kOrder, sm90::NoPace>(plan, rank, args, {}, stream);
  });
}

}  // namespace mk::ag_gemm_op
