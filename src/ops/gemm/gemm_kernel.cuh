// SPDX-License-Identifier: MIT
// ops/gemm/gemm_kernel.cuh — the persistent kernel of every GEMM operator.
//
// Compute blocks load, multiply and store tiles.  Other blocks, and warps inside compute blocks, communicate.  The
// protocol of the Layout says what each waits for and tells (gemm_compute.h).  The Layout also has
//
//   Configs       the tiles there are (gemm_config.h); image() and cluster say which it is
//   kOutput       whether C has the rows of one shard or of all
//   kGathers      rows of other ranks come through the window kGatheredSlot; own rows are loaded first and at once:
//                 own_tile_at(layout, rank, index) is the first tile of compute worker `index` < num_own_tiles()
//   kSums         results go into images, except in a world of one rank, and a body sums them
//   kKeepsStep    compute blocks begin waves of tiles together (in_step.cuh)
#pragma once

#include "base/cuda_api.h"
#include "ops/gemm/gemm_compute.h"
#include "ops/gemm/gemm_sm90.h"
#include "ops/sums/sum_body.cuh"
#include "target/sm90/communication_block.cuh"
#include "target/sm90/gemm_load.cuh"
#include "target/sm90/gemm_maths.cuh"
#include "target/sm90/gemm_store.cuh"
#include "target/sm90/in_step.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/tensor_map.h"
#include "target/sm90/with_config.cuh"

namespace mk::gemm {

// What a block asks for, whichever kind it is.
template <class Config, class Element>
constexpr size_t kBlockShared = sm90::kSharedFor<sm90::GemmShared<Config, Element>, sm90::BulkBuffers>;

// Parameters are copied at every launch: what an operator does not need takes no room.
template <bool kIsThere>
struct MapIf {
  CUtensorMap map;
};
template <>
struct MapIf<false> {};

template <class Layout, class Pace>
struct GemmParams {
  RankView view;
  Layout layout;
  CUtensorMap a;  // the caller's rows
  CUtensorMap b;
  CUtensorMap c;                                           // in boxes; in half boxes where sums are written
  [[no_unique_address]] MapIf<Layout::kGathers> gathered;  // rows of others, in a window
  [[no_unique_address]] MapIf<!Layout::kSums> c_narrow;    // in narrow boxes, for a configuration that has them
  void* out;                                               // C
  const void* bias;                                        // [n] or null
  Activation activation;
  [[no_unique_address]] typename Pace::Setting pace;
};

template <class Config, class Layout>
__device__ sm90::TileCoords coords(const Layout& layout, const Tile& tile, int rank) {
  const TileImage& image = layout.image();
  const int in_cluster = Config::kCluster > 1 ? static_cast<int>(sm90::block_in_cluster()) * Config::kTileM : 0;
  const bool is_own = Layout::kGathers && tile.source == rank;
  return {tile.row_block * image.tile_m + in_cluster, is_own ? 0 : tile.source,
          Layout::kOutput == Output::kAll ? tile.source : 0, tile.col_block * image.tile_n};
}

template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
__device__ void load_tiles(const GemmParams<Layout, Pace>& p, const Post& post, int worker,
                           sm90::GemmShared<Config, Element>& shared) {
  if (sm90::is_one_lane()) {
    for (const CUtensorMap* map : {&p.a, &p.b}) sm90::prefetch_tensor_map(map);
  }
  sm90::Sm90Machine<sm90::WarpCrew> machine(p.view, post, worker, {}, sm90::NoPace(), /*part=*/1);
  const int k_blocks = sm90::blocks_of_k<Config>(p.layout.k);
  sm90::LoadJob<Config, Element, kOrder> job(shared);
  if constexpr (Layout::kGathers) {
    if (post.index < p.layout.num_own_tiles()) {  // at once: own rows are not waited for
      job.begin({&p.a, &p.b, k_blocks},
                coords<Config>(p.layout, own_tile_at(p.layout, p.view.rank, post.index), p.view.rank));
    }
  }
  sm90::InStep in_step(p.view, post, Layout::kKeepsStep ? p.layout.num_tiles() : 0, p.layout.k);
  bool alive = true;
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    if constexpr (Layout::kKeepsStep) in_step.next();
    if (alive && !load_step(machine, p.layout, tile)) {
      alive = false;
      job.give_up();
    }
    const CUtensorMap* rows = &p.a;
    if constexpr (Layout::kGathers) rows = tile.source == p.view.rank ? &p.a : &p.gathered.map;
    job.load({rows, &p.b, k_blocks}, coords<Config>(p.layout, tile, p.view.rank));
    return true;
  });
  job.finish();
  machine.close();
}

template <class Config, class Element, BOrder kOrder, sm90::Staging kStaging, class Layout, class Pace, class Hook>
__device__ void multiply_tiles(const GemmParams<Layout, Pace>& p, const Post& post,
                               sm90::GemmShared<Config, Element>& shared, const Hook& hook) {
  const int k_blocks = sm90::blocks_of_k<Config>(p.layout.k);
  sm90::MathsJob<Config, Element, kOrder, kStaging> job(shared);
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    const sm90::TileCoords at = coords<Config>(p.layout, tile, p.view.rank);
    if constexpr (kStaging == sm90::Staging::kImage) {
      const int cols = static_cast<int>(p.layout.image().cols) - at.col;
      job.multiply({.k_blocks = k_blocks, .row = at.row, .col = at.col, .cols = cols}, hook);
    } else {
      job.multiply({.k_blocks = k_blocks, .row = at.row, .col = at.col}, hook);
    }
    return true;
  });
  job.finish();
}

template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
__device__ void maths(const GemmParams<Layout, Pace>& p, const Post& post, sm90::GemmShared<Config, Element>& shared) {
  using sm90::Staging;
  if constexpr (!Layout::kSums) {
    sm90::with_epilogue<Element>(p.bias, p.layout.image().cols, p.activation, [&](const auto& hook) {
      multiply_tiles<Config, Element, kOrder, Staging::kTensor>(p, post, shared, hook);
    });
  } else if (p.layout.num_images() == 0) {
    multiply_tiles<Config, Element, kOrder, Staging::kTensor>(p, post, shared, sm90::Plain{});
  } else {
    multiply_tiles<Config, Element, kOrder, Staging::kImage>(p, post, shared, sm90::Plain{});
  }
}

// Straight to C.  Stores are under way when after_store is called: no layout tells of C.  One that does has to finish
// them first, as deliver_tiles does.
template <class Config, class Element, class Layout, class Pace>
__device__ void write_tiles(const GemmParams<Layout, Pace>& p, const Post& post, int worker,
                            sm90::GemmShared<Config, Element>& shared) {
  sm90::prefetch_tensor_map(&p.c);
  sm90::Sm90Machine<SoloCrew, Pace> machine(p.view, post, worker, {}, Pace(p.pace));
  sm90::StoreJob<Config, Element> job(shared);
  bool alive = true;
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    const sm90::TileCoords at = coords<Config>(p.layout, tile, p.view.rank);
    alive = alive && before_store(machine, p.layout, tile);
    const auto send_box = [&](const Element* box, int row, int col) {
      if (!alive) return;
      const CUtensorMap* c = &p.c;
      if constexpr (Config::kNarrowBox > 0) c = Config::is_narrow(col) ? &p.c_narrow.map : &p.c;
      sm90::store_result(c, {at.col + col, at.row + row, at.c_shard}, box);
    };
    alive = job.store_one(tiles_after(tile.number, post, p.layout.num_tiles()), send_box) && alive;
    if (alive) after_store(machine, p.layout, tile);
    return true;
  });
  job.finish_reads();
}

// Into images.  A tile that may not be stored is thrown away, and so are all after it.
template <class Config, class Element, class Layout, class Pace>
__device__ void deliver_tiles(const GemmParams<Layout, Pace>& p, const Post& post, int worker,
                              sm90::GemmShared<Config, Element>& shared) {
  sm90::Sm90Machine<SoloCrew, Pace> machine(p.view, post, worker, {}, Pace(p.pace));
  sm90::StoreJob<Config, Element> job(shared);
  const int receivers = p.layout.num_images();
  bool alive = true;
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    alive = alive && before_store(machine, p.layout, tile);
    const sm90::BoxImage boxes = sums::box_image(p.layout.image(), tile);
    Place at = p.layout.image_at(p.view.rank, tile);
    const auto send_box = [&](const Element* box, int row, int col) {
      const int bytes = boxes.box_bytes(row, col);
      if (!alive || bytes == 0) return;
#pragma unroll 1
      for (int step = 0; step < receivers; ++step) {
        at.rank = p.layout.receiver(p.view.rank, tile, step);
        std::byte* to = p.view.windows.resolve(p.view.world, at) + boxes.box_offset(row, col);
        sm90::ptx::cp_async_bulk(sm90::ptx::space_global, sm90::ptx::space_shared, to, box,
                                 static_cast<uint32_t>(bytes));
      }
    };
    alive = job.store_one(tiles_after(tile.number, post, p.layout.num_tiles()), send_box) && alive;
    job.finish();
    if (alive) after_store(machine, p.layout, tile);
    return true;
  });
  machine.close();
}

// What a warp that communicates does.
template <class Element, class Layout, class Pace>
__device__ auto communication(const GemmParams<Layout, Pace>& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces& pieces) {
    if constexpr (Layout::kSums) {
      sums::SumBody<Element> body(p.view, p.layout.image(), {p.out, &p.c, Layout::kOutput}, pieces);
      communicate(machine, p.layout, post, body);
    } else {
      communicate(machine, p.layout, post, pieces);  // it needs no body
    }
  };
}

// ptxas puts the branch not taken first: written so, the code up to the first copy lies at the block's beginning.
// Inlined always: a call would cost registers that the maths warps do not have.
template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
__device__ __forceinline__ void compute_block(const GemmParams<Layout, Pace>& p, Post post, int worker,
                                              std::byte* memory) {
  auto& shared = *reinterpret_cast<sm90::GemmShared<Config, Element>*>(memory);
  post.index /= Config::kCluster;
  post.count /= Config::kCluster;
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();  // before the registers, which may have to be waited for
    sm90::take_registers<Config::kMathsRegisters>();
    maths<Config, Element, kOrder>(p, post, shared);
  } else {
    sm90::give_registers<Config::kJobRegisters>();
    if (threadIdx.x >= 32) {
      if (threadIdx.x < 64) sm90::prepare_stores(shared);
      sm90::begin_jobs<Config>();
      if (threadIdx.x < 64) {
        if (!sm90::is_one_lane()) return;
        if (Layout::kSums && p.layout.num_images() > 0) {
          deliver_tiles<Config, Element>(p, post, worker, shared);
        } else {
          write_tiles<Config, Element>(p, post, worker, shared);
        }
      } else if constexpr (Config::kInsidePieceBytes > 0) {
        if (threadIdx.x >= 96 || !p.layout.roles.has_inside()) return;
        static_assert(Config::kCluster == 1);
        const Post inside = p.layout.roles.post_inside(1, post.index);
        sm90::run_worker<Pace>(p.view, inside, worker + 1, p.pace, shared.inside.pieces(), communication<Element>(p));
      }
    } else {
      load_tiles<Config, Element, kOrder>(p, post, worker, shared);
    }
  }
}

template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
__global__ void __launch_bounds__(Config::kThreads, 1) gemm_kernel(const __grid_constant__ GemmParams<Layout, Pace> p) {
  std::byte* const memory = sm90::block_memory();
  const Roster& roles = p.layout.roles;
  const int compute = static_cast<int>(blockIdx.x) - sm90::communication_blocks(roles);
  const Post post{Layout::kCompute, compute, roles.num_compute()};
  // What lies first in the kernel starts sooner, and that is the branch not taken.  Rows that are gathered wait for
  // compute's own; sums wait for the warps that communicate.
  if constexpr (Layout::kSums) {
    if (compute >= 0) {
      compute_block<Config, Element, kOrder>(p, post, roles.compute_worker(compute), memory);
    } else {
      sm90::run_communication_block<Pace>(p.view, roles, p.pace, memory, communication<Element>(p));
    }
  } else if (compute < 0) {
    sm90::run_communication_block<Pace>(p.view, roles, p.pace, memory, communication<Element>(p));
  } else {
    compute_block<Config, Element, kOrder>(p, post, roles.compute_worker(compute), memory);
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// Every configuration's kernel.
template <class Element, BOrder kOrder, class Layout, class Pace>
void load_gemm() {
  sm90::for_each_config<typename Layout::Configs>([&]<class Config>() {
    const auto kernel = gemm_kernel<Config, Element, kOrder, Layout, Pace>;
    load_kernel(reinterpret_cast<const void*>(kernel), kBlockShared<Config, Element>);
  });
}

template <class Config, BOrder kOrder, class Layout, class Pace>
GemmParams<Layout, Pace> make_params(const runtime::Plan& plan, int rank, const GemmOperands& of,
                                     const typename Pace::Setting& pace) {
  GemmParams<Layout, Pace> params{.view = plan.view(rank), .layout = plan.layout<Layout>()};
  params.view.windows.inputs[0] = static_cast<const std::byte*>(of.a.data);
  params.out = of.c.data;
  params.bias = of.bias;
  params.activation = of.activation;
  params.pace = pace;
  const Layout& layout = params.layout;
  const TileImage& image = layout.image();
  const DType dtype = of.a.dtype;
  const int64_t shards = layout.m() / image.rows;
  const auto rows = [&](const void* data, int64_t count) {
    return sm90::make_tensor_map({data, dtype, layout.k, image.rows, count}, Config::kTileK, Config::kTileM);
  };
  params.a = rows(of.a.data, Layout::kGathers ? 1 : shards);
  if constexpr (Layout::kGathers) {
    params.gathered.map = rows(shards > 1 ? plan.window(Layout::kGatheredSlot, rank) : of.a.data, shards);
  }
  params.b = sm90::make_right_map<Config, kOrder>(of.b.data, dtype, image.cols, layout.k);
  const sm90::ShardedMatrix c{of.c.data, dtype, image.cols, image.rows, Layout::kOutput == Output::kAll ? shards : 1};
  params.c = sm90::make_tensor_map(c, Config::kBox, layout.num_images() == 0 ? Config::kBox : Config::kBox / 2);
  if constexpr (Config::kNarrowBox > 0) {
    params.c_narrow.map = sm90::make_tensor_map(c, Config::kNarrowBox, Config::kBox);
  }
  return params;
}

// Queues the launch of one rank.
template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
void launch_gemm(const runtime::Plan& plan, int rank, const GemmOperands& operands, const typename Pace::Setting& pace,
                 cudaStream_t stream) {
  constexpr size_t kSharedBytes = kBlockShared<Config, Element>;
  static_assert(kSharedBytes <= sm90::kSharedLimit);
  const auto params = make_params<Config, kOrder, Layout, Pace>(plan, rank, operands, pace);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {Config::kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = sm90::num_blocks(params.layout.roles);
  config.blockDim = Config::kThreads;
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = Config::kCluster > 1 ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, gemm_kernel<Config, Element, kOrder, Layout, Pace>, params),
             "launch a kernel");
}

// The configuration of a layout's tile.
template <class Layout>
sm90::GemmTile gemm_tile_of(const Layout& layout) {
  const TileImage& image = layout.image();
  return {image.tile_m / layout.cluster, image.tile_n, layout.cluster};
}

template <class Layout, DType kDType, BOrder kOrder>
void GemmLauncher<Layout, kDType, kOrder>::load() {
  load_gemm<sm90::ElementOf<kDType>, kOrder, Layout, sm90::NoPace>();
}

template <class Layout, DType kDType, BOrder kOrder>
void GemmLauncher<Layout, kDType, kOrder>::launch(const runtime::Plan& plan, int rank, const GemmOperands& operands,
                                                  cudaStream_t stream) {
  sm90::with_tile<typename Layout::Configs>(gemm_tile_of(plan.layout<Layout>()), [&]<class Config>() {
    launch_gemm<Config, sm90::ElementOf<kDType>, kOrder, Layout, sm90::NoPace>(plan, rank, operands, {}, stream);
  });
}

}  // namespace mk::gemm
