// SPDX-License-Identifier: MIT
// ops/dense/sum_kernel.cuh — the persistent kernel of the operators that sum products over ranks.
//
// Compute blocks multiply and send each tile, box by box, into an image at its receivers; other blocks sum
// images and move finished tiles.  What they wait for and tell is the protocol of the Layout (compute.h).
#pragma once

#include "base/cuda_api.h"
#include "ops/dense/compute.h"
#include "ops/dense/sm90_launch.h"
#include "ops/dense/sum_body.cuh"
#include "target/sm90/communication_block.cuh"
#include "target/sm90/gemm_load.cuh"
#include "target/sm90/gemm_maths.cuh"
#include "target/sm90/gemm_store.cuh"
#include "target/sm90/in_step.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/tensor_map.h"
#include "target/sm90/with_config.cuh"

namespace mk::dense {

template <class Layout, class Pace>
struct SumParams {
  RankView view;
  Layout layout;
  CUtensorMap a;
  CUtensorMap b;
  CUtensorMap c;  // in a world of one rank in boxes, else in pieces
  void* out;
  [[no_unique_address]] typename Pace::Setting pace;
};

template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
__device__ void load_tiles(const SumParams<Layout, Pace>& p, const Post& post,
                           sm90::GemmShared<Config, Element>& shared) {
  if (sm90::is_one_lane()) {
    for (const CUtensorMap* map : {&p.a, &p.b}) sm90::prefetch_tensor_map(map);
  }
  const int k_blocks = sm90::blocks_of_k<Config>(p.layout.k);
  sm90::LoadJob<Config, Element, kOrder> job(shared);
  sm90::InStep in_step(p.view, post, p.layout.num_tiles(), p.layout.k);
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    const TileImage& image = p.layout.image();
    in_step.next();
    job.load({&p.a, &p.b, k_blocks}, {tile.row_block * image.tile_m, tile.source, 0, tile.col_block * image.tile_n});
    return true;
  });
  job.finish();
}

template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
__device__ void multiply_tiles(const SumParams<Layout, Pace>& p, const Post& post,
                               sm90::GemmShared<Config, Element>& shared) {
  const auto multiply = [&]<sm90::Staging kStaging>() {
    const int k_blocks = sm90::blocks_of_k<Config>(p.layout.k);
    sm90::MathsJob<Config, Element, kOrder, kStaging> job(shared);
    for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
      const TileImage& image = p.layout.image();
      const int col = tile.col_block * image.tile_n;
      job.multiply({k_blocks, tile.row_block * image.tile_m, col, static_cast<int>(image.cols) - col}, sm90::Plain{});
      return true;
    });
    job.finish();
  };
  if (p.layout.world.size() == 1) {
    multiply.template operator()<sm90::Staging::kTensor>();
  } else {
    multiply.template operator()<sm90::Staging::kImage>();
  }
}

// In a world of one rank a tile goes straight to C.
template <class Config, class Element, class Layout, class Pace>
__device__ void write_tiles(const SumParams<Layout, Pace>& p, const Post& post,
                            sm90::GemmShared<Config, Element>& shared) {
  sm90::StoreJob<Config, Element> job(shared);
  sm90::prefetch_tensor_map(&p.c);
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    const TileImage& image = p.layout.image();
    const auto send_box = [&](const Element* box, int row, int col) {
      const int32_t to[3] = {tile.col_block * image.tile_n + col, tile.row_block * image.tile_m + row, 0};
      sm90::ptx::cp_async_bulk_tensor(sm90::ptx::space_global, sm90::ptx::space_shared, &p.c, to, box);
    };
    job.store_one(tiles_after(tile.number, post, p.layout.num_tiles()), send_box);
    return true;
  });
  job.finish_reads();
}

template <class Config, class Element, class Layout, class Pace>
__device__ void deliver_tiles(const SumParams<Layout, Pace>& p, const Post& post,
                              sm90::GemmShared<Config, Element>& shared) {
  const int worker = p.layout.roles.compute_worker(post.index);
  sm90::Sm90Machine<SoloCrew, Pace> machine(p.view, post, worker, {}, Pace(p.pace));
  sm90::StoreJob<Config, Element> job(shared);
  const int receivers = p.layout.num_images();
  bool alive = true;
  for_each_tile(p.layout, p.view.rank, post, [&](const Tile& tile) {
    alive = alive && before_store(machine, p.layout, tile);
    const sm90::BoxImage boxes = box_image(p.layout.image(), tile);
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
    job.store_one(tiles_after(tile.number, post, p.layout.num_tiles()), send_box);
    job.finish();
    if (alive) after_store(machine, p.layout, tile);
    return true;
  });
  machine.close();
}

template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
__device__ void compute(const SumParams<Layout, Pace>& p, const Post& post, std::byte* memory) {
  auto& shared = *reinterpret_cast<sm90::GemmShared<Config, Element>*>(memory);
  if (threadIdx.x < 128) {
    sm90::give_registers<Config::kJobRegisters>();
    if (threadIdx.x < 32) {
      load_tiles<Config, Element, kOrder>(p, post, shared);
    } else {
      if (threadIdx.x < 64) sm90::prepare_stores(shared);
      sm90::begin_jobs<Config>();
      if (threadIdx.x < 64 && sm90::is_one_lane()) {
        if (p.layout.world.size() == 1) {
          write_tiles<Config, Element>(p, post, shared);
        } else {
          deliver_tiles<Config, Element>(p, post, shared);
        }
      }
    }
  } else {
    sm90::begin_jobs<Config>();
    sm90::take_registers<Config::kMathsRegisters>();
    multiply_tiles<Config, Element, kOrder>(p, post, shared);
  }
}

template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
__global__ void __launch_bounds__(Config::kThreads, 1) sum_kernel(const __grid_constant__ SumParams<Layout, Pace> p) {
  extern __shared__ std::byte dynamic[];
  std::byte* const memory = dynamic + (-sm90::shared_address(dynamic) & 1023);
  const Roster& roles = p.layout.roles;
  const Post post = roles.post_of(sm90::workers_of(roles, static_cast<int>(blockIdx.x)).first);
  if (post.role == Layout::kCompute) {
    compute<Config, Element, kOrder>(p, post, memory);
  } else {
    const auto work = [&](auto& machine, const Post& own, const sm90::BulkPieces& pieces) {
      SumBody<Element> body(p.view, p.layout.image(), {p.out, &p.c, Layout::kOutput}, pieces);
      communicate(machine, p.layout, own, body);
    };
    sm90::communicate<Pace>(p.view, roles, p.pace, memory, work);
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// Every configuration's kernel.
template <class Element, BOrder kOrder, class Layout, class Pace>
void load_sum() {
  sm90::for_each_config<sm90::SoloConfigs>([&]<class Config>() {
    const auto kernel = sum_kernel<Config, Element, kOrder, Layout, Pace>;
    load_kernel(reinterpret_cast<const void*>(kernel), sm90::kBlockShared<Config, Element>);
  });
}

// Queues the launch of one rank.
template <class Config, class Element, BOrder kOrder, class Layout, class Pace>
void launch_sum(const runtime::Plan& plan, int rank, const GemmArgs& args, const typename Pace::Setting& pace,
                cudaStream_t stream) {
  SumParams<Layout, Pace> params{.view = plan.view(rank), .layout = plan.layout<Layout>()};
  params.view.windows.inputs[0] = static_cast<const std::byte*>(args.a.data);
  params.out = args.c.data;
  params.pace = pace;
  const TileImage& image = params.layout.image();
  const DType dtype = args.a.dtype;
  const int64_t k = params.layout.k;
  const int64_t shards = params.layout.m() / image.rows;
  params.a = sm90::make_tensor_map({args.a.data, dtype, k, image.rows, shards}, Config::kTileK, Config::kTileM);
  params.b = sm90::make_right_map<Config, kOrder>(args.b.data, dtype, image.cols, k);
  const int64_t shards_of_c = Layout::kOutput == Output::kAll ? shards : 1;
  const int rows_of_c = params.layout.world.size() == 1 ? Config::kBox : Config::kBox / 2;
  params.c = sm90::make_tensor_map({args.c.data, dtype, image.cols, image.rows, shards_of_c}, Config::kBox, rows_of_c);

  constexpr size_t kSharedBytes = sm90::kBlockShared<Config, Element>;
  static_assert(kSharedBytes <= sm90::kSharedLimit && Config::kCluster == 1);
  const auto kernel = sum_kernel<Config, Element, kOrder, Layout, Pace>;
  kernel<<<sm90::num_blocks(params.layout.roles), Config::kThreads, kSharedBytes, stream>>>(params);
  check_cuda(cudaGetLastError(), "launch a kernel");
}

template <class Layout, DType kDType, BOrder kOrder>
void SumLauncher<Layout, kDType, kOrder>::load() {
  load_sum<sm90::ElementOf<kDType>, kOrder, Layout, sm90::NoPace>();
}

template <class Layout, DType kDType, BOrder kOrder>
void SumLauncher<Layout, kDType, kOrder>::launch(const runtime::Plan& plan, int rank, const GemmArgs& args,
                                                 cudaStream_t stream) {
  const TileImage& image = plan.layout<Layout>().image();
  sm90::with_tile<sm90::SoloConfigs>(gemm_tile_of(image), [&]<class Config>() {
    launch_sum<Config, sm90::ElementOf<kDType>, kOrder, Layout, sm90::NoPace>(plan, rank, args, {}, stream);
  });
}

}  // namespace mk::dense
