// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_kernel.cuh — the persistent kernel of moe_layer.
//
// Blocks are those of moe_kernel.cuh.  Tiles of both GEMMs go through one queue.  The first GEMM's right operand has
// the columns of gate and up in turns, so SwiGLU is its epilogue.  When a block has no tiles left, its consumers sum
// tokens.
#pragma once

#include "base/cuda_api.h"
#include "ops/moe/layer_load.cuh"
#include "ops/moe/moe_layer_body.cuh"
#include "ops/moe/moe_layer_protocol.h"
#include "ops/moe/moe_layer_sm90.h"
#include "ops/moe/moe_sm90.h"
#include "ops/moe/own_sums.cuh"
#include "ops/moe/stored_tiles.cuh"
#include "target/sm90/communication_block.cuh"
#include "target/sm90/gemm_mixed_maths.cuh"
#include "target/sm90/gemm_store.cuh"
#include "target/sm90/sm90_machine.cuh"
#include "target/sm90/tensor_map.h"
#include "target/sm90/tile_queue.cuh"
#include "target/sm90/with_config.cuh"

namespace mk::moe {

// What the jobs must know of a tile.
struct QueuedLayerTile {
  LayerTile tile;
  bool is_here = false;  // its operands came in time
  bool is_turn = false;  // no tile: tiles of the second GEMM follow, and may wait for what was computed before
};

template <class Config, class Element>
struct LayerShared {
  sm90::GemmShared<Config, Element> gemm;
  sm90::TileQueue<QueuedLayerTile> tiles;
  StoredTiles<QueuedLayerTile> stored;
  SumsShared sums;
};
// The consumers' threads, the one that stores and the warp that tells.
template <class Config>
constexpr int kLayerTakers = 128 * Config::kConsumers + 1 + 32;

// The jobs beside the maths need more than those of moe_kernel.cuh.
constexpr int kLayerJobRegisters = 104;
constexpr int kLayerMathsRegisters = 200;
static_assert(sm90::registers_fit(kLayerJobRegisters, 2, kLayerMathsRegisters));

template <class Config, class Element>
constexpr size_t kLayerBlockShared = sm90::kSharedFor<LayerShared<Config, Element>, sm90::BulkBuffers>;

// Of the first and of the second GEMM.
template <class Config>
using Activations = sm90::MixedBoxes<Config, 2>;
template <class Config>
using Results = sm90::MixedBoxes<Config, 1>;

template <class Pace>
struct LayerParams {
  RankView view;
  LayerLayout layout;
  LayerOperands operands;
  CUtensorMap rows;
  CUtensorMap w13;
  CUtensorMap activations_out;
  CUtensorMap activations;
  CUtensorMap w2;
  CUtensorMap results;
  const Route* origins;
  [[no_unique_address]] typename Pace::Setting pace;
};

template <class Config, class Element, class Pace>
__device__ void load_tiles(const LayerParams<Pace>& p, const Post& post, int worker,
                           LayerShared<Config, Element>& shared) {
  if (sm90::is_one_lane()) {
    shared.sums.failed = 0;
    shared.tiles.prepare(kLayerTakers<Config>);
    shared.stored.prepare();
    for (const CUtensorMap* map : {&p.rows, &p.w13, &p.activations, &p.w2}) sm90::prefetch_tensor_map(map);
  }
  __syncwarp();
  sm90::ClaimingMachine machine(p.view, post, worker, /*part=*/1);
  sm90::LoadJob<Config, Element, BOrder::kNK, /*kMayGate=*/true> job(shared.gemm);
  job.meet();
  sm90::TileGiver<QueuedLayerTile> giver(shared.tiles);
  bool alive = true;
  const auto operands = [&](bool is_second) -> sm90::TileOperands {
    if (is_second) return {&p.activations, &p.w2, sm90::blocks_of_k<Config>(p.layout.inter)};
    return {&p.rows, &p.w13, sm90::blocks_of_k<Config>(p.layout.k), /*is_gated=*/true};
  };
  const auto give = [&](const QueuedLayerTile& next) {
    if (sm90::is_one_lane()) giver.give(next);
    __syncwarp();
  };
  load_layer_tiles<Config>(
      machine, p.layout, post, job, operands, [&] { give({.is_turn = true}); },
      [&](const LayerTile& tile, bool is_here) {
        give({tile, is_here});
      },
      alive);
  job.finish();
  if (sm90::is_one_lane()) giver.end();
  __syncwarp();
  machine.close();
}

struct NoScores {};

// Each row times the weight of its pair.  A thread has two rows, eight apart.
struct Weighted {
  static constexpr int kFold = 1;
  float upper;
  float lower;

  __device__ void operator()(float& x, float& y, int row, int) const {
    const float weight = (row & 8) == 0 ? upper : lower;
    x *= weight;
    y *= weight;
  }
};

// SwiGLU of a tile that also keeps its gates and ups.
template <class Element, class Clamp>
struct KeptSwiGlu {
  static constexpr int kFold = 2;
  static constexpr bool kHasOwnPlaces = true;
  Element* kept;  // [row][2][inter], from the tile's first row and column on
  int inter;
  int rows;
  int cols;
  Clamp clamp;

  __device__ void operator()(float& x, float& y, float up_x, float up_y, int row, int col) const {
    if (row < rows && col < cols) {
      auto* const to = reinterpret_cast<uint32_t*>(kept + row * 2 * inter + col);
      to[0] = sm90::pack<Element>(x, y);
      to[inter / 2] = sm90::pack<Element>(up_x, up_y);
    }
    sm90::SwiGlu{clamp}(x, y, up_x, up_y, row, col);
  }
};

template <class Config, class Element, class Pace, class Clamp>
__device__ KeptSwiGlu<Element, Clamp> kept_swiglu(const LayerParams<Pace>& p, const LayerTile& tile,
                                                  const Clamp& clamp) {
  const int inter = static_cast<int>(p.layout.inter);
  const int col = tile.col_block * Activations<Config>::kTileN;
  return {static_cast<Element*>(p.operands.kept) + tile.row * 2 * inter + col, inter, tile.rows, inter - col, clamp};
}

template <class Config, class Pace>
__device__ Weighted weights_of(const LayerParams<Pace>& p, const LayerTile& tile) {
  static_assert(Config::kSlabs == 1);
  const Route* const origins = p.origins + tile.row;
  const int thread = static_cast<int>(threadIdx.x) - 128;
  const int part = Config::kConsumersAlongM == 1 ? 0 : thread / 128 * Config::kPartM;
  const int row = part + sm90::Fragment::sum_row(thread % 128, 0);
  const auto weight = [&](int of) { return of < tile.rows ? __ldcg(&origins[of].weight) : 0.0f; };
  return {weight(row), weight(row + 8)};
}

template <class Config, class Element, class Pace>
__device__ __forceinline__ void multiply_tiles(const LayerParams<Pace>& p, LayerShared<Config, Element>& shared) {
  sm90::MixedMathsJob<Config, Element, BOrder::kNK, Activations<Config>, Results<Config>> job(shared.gemm);
  sm90::TileTaker<QueuedLayerTile> tiles(shared.tiles);
  for (const QueuedLayerTile* next = tiles.look(); next != nullptr; tiles.free(), next = tiles.look()) {
    if (next->is_turn) {
      job.hand_out_all();
      continue;
    }
    const bool is_second = next->tile.is_second;
    const Weighted weights = is_second ? weights_of<Config>(p, next->tile) : Weighted{};
    const int k_blocks = sm90::blocks_of_k<Config>(is_second ? p.layout.inter : p.layout.k);
    const auto with_swiglu = [&](const auto& body) {
      with_clamp(p.layout.clamp, [&](const auto& clamp) {
        if (p.operands.kept == nullptr || !next->is_here) {
          body(sm90::SwiGlu{clamp});
        } else {
          body(kept_swiglu<Config, Element>(p, next->tile, clamp));
        }
      });
    };
    job.multiply({.k_blocks = k_blocks}, !is_second, with_swiglu, weights);
  }
  tiles.free();
  job.hand_out_all();
}

// One thread.
template <class Config, class Element, class Pace>
__device__ void store_tiles(const LayerParams<Pace>& p, LayerShared<Config, Element>& shared) {
  for (const CUtensorMap* map : {&p.activations_out, &p.results}) sm90::prefetch_tensor_map(map);
  sm90::StoreJob<Config, Element> job(shared.gemm);
  sm90::TileTaker<QueuedLayerTile> tiles(shared.tiles);
  StoredCursor<QueuedLayerTile> stored(shared.stored);
  QueuedLayerTile next;
  while (tiles.take(next)) {
    if (next.is_turn) continue;
    if (next.tile.is_second) {
      store_rows<Results<Config>>(job, &p.results, next.tile, next.is_here);
    } else {
      store_rows<Activations<Config>>(job, &p.activations_out, next.tile, next.is_here);
    }
    stored.say();
  }
}

// One warp.
template <class Config, class Element, class Pace>
__device__ void tell_of_tiles(const LayerParams<Pace>& p, const Post& post, int worker,
                              LayerShared<Config, Element>& shared) {
  sm90::Sm90Machine<sm90::WarpCrew, Pace> machine(p.view, post, worker, {}, Pace(p.pace));
  sm90::TileTaker<QueuedLayerTile> tiles(shared.tiles);
  StoredCursor<QueuedLayerTile> stored(shared.stored);
  NoScores scores;
  for (const QueuedLayerTile* next = tiles.look(); next != nullptr; tiles.free(), next = tiles.look()) {
    if (next->is_turn) continue;
    tell_when_stored(machine, p.layout, next->tile, next->is_here, stored, scores);
  }
  tiles.free();
  machine.close();
}

// What a warp that is a worker does: one of a communication block sends, one inside a compute block dispatches.
template <class Element, class Pace>
__device__ auto sending(const LayerParams<Pace>& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces& pieces) MK_INLINE_LAMBDA {
    if (!send_all(machine, p.layout, post)) return;
    const sm90::PieceSum<Element> sum(pieces, machine.num_copied());
    LayerBody<sm90::PieceSum<Element>> body(p.view, p.layout, p.operands, nullptr, sum);
    return_sums(machine, p.layout, post, body);
  };
}
template <class Element, class Pace>
__device__ auto dispatching(const LayerParams<Pace>& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces& pieces) MK_INLINE_LAMBDA {
    LayerBody<sm90::NoSum> body(p.view, p.layout, p.operands, pieces.data);
    dispatch(machine, p.layout, post, body);
  };
}

template <class Config, class Element, class Pace>
__device__ __forceinline__ void compute_block(const LayerParams<Pace>& p, const Post& post, int worker,
                                              std::byte* memory) {
  auto& shared = *reinterpret_cast<LayerShared<Config, Element>*>(memory);
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();
    sm90::take_registers<kLayerMathsRegisters>();
    multiply_tiles<Config, Element>(p, shared);
    LayerBody<sm90::RowSum<Element, 8, 2>> body(p.view, p.layout, p.operands, nullptr);
    sum_own_tokens<Config>(p.view, p.layout, post, worker, shared.sums, body);
    return;
  }
  sm90::give_registers<kLayerJobRegisters>();
  if (threadIdx.x < 32) return load_tiles<Config, Element>(p, post, worker, shared);
  if (threadIdx.x < 64) sm90::prepare_stores(shared.gemm);
  sm90::begin_jobs<Config>();
  if (threadIdx.x < 64) {
    if (sm90::is_one_lane()) store_tiles(p, shared);
  } else if (threadIdx.x < 96) {
    tell_of_tiles(p, post, worker, shared);
  } else {
    const Post inside = p.layout.roles.post_inside(1, post.index);
    sm90::run_worker<Pace>(p.view, inside, worker + 1, p.pace, shared.gemm.inside.pieces(), dispatching<Element>(p));
  }
}

template <class Config, class Element, class Pace>
__global__ void __launch_bounds__(Config::kThreads, 1) moe_layer_kernel(const __grid_constant__ LayerParams<Pace> p) {
  std::byte* const memory = sm90::block_memory();
  const Roster& roles = p.layout.roles;
  const int compute = static_cast<int>(blockIdx.x) - sm90::communication_blocks(roles);
  if (compute >= 0) {
    const Post post{LayerLayout::kCompute, compute, roles.num_compute()};
    compute_block<Config, Element>(p, post, roles.compute_worker(compute), memory);
  } else {
    sm90::run_communication_block<Pace>(p.view, roles, p.pace, memory, sending<Element>(p));
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// Every configuration's kernel.
template <class Element, class Pace>
void load_layer() {
  sm90::for_each_config<MoeConfigs>([&]<class Config>() {
    load_kernel(reinterpret_cast<const void*>(moe_layer_kernel<Config, Element, Pace>),
                kLayerBlockShared<Config, Element>);
  });
}

template <class Config, class Element, class Pace>
void launch_layer(const LayerLayout& layout, RankView view, const runtime::Plan& plan, const MoeLayerArgs& args,
                  const typename Pace::Setting& pace, cudaStream_t stream) {
  static_assert(Config::kCluster == 1 && kLayerBlockShared<Config, Element> <= sm90::kSharedLimit);
  static_assert(Config::kTileM <= kMostTileRows);
  using Boxes = Activations<Config>;
  static_assert(Boxes::kNarrow == 0 || Boxes::kPartN == Boxes::kNarrow);
  constexpr int kCols = Boxes::kNarrow > 0 ? Boxes::kNarrow : Boxes::kCols;
  const DType dtype = args.w2.dtype;
  LayerParams<Pace> params{.view = view, .layout = layout, .operands = operands_of(args)};
  params.pace = pace;
  const sm90::ShardedMatrix rows{plan.window(kRowsWindow, view.rank), dtype, layout.k, layout.max_rows, 1};
  params.rows = sm90::make_tensor_map(rows, Config::kTileK, Config::kTileM);
  params.w13 = sm90::make_gated_map<Config>(args.w13.data, dtype, layout.inter, layout.k, layout.local_experts());
  const void* const activations = plan.window(kActivationsWindow, view.rank);
  const sm90::RaggedRows ragged{.cols = layout.inter, .rows = layout.max_rows, .box_rows = Boxes::kRows};
  params.activations_out = sm90::make_ragged_map(activations, dtype, ragged, kCols);
  params.activations = sm90::make_tensor_map(sm90::ShardedMatrix{activations, dtype, layout.inter, layout.max_rows, 1},
                                             Config::kTileK, Config::kTileM);
  params.w2 =
      sm90::make_right_map<Config, BOrder::kNK>(args.w2.data, dtype, layout.n, layout.inter, layout.local_experts());
  const sm90::RaggedRows results{.cols = layout.n, .rows = layout.max_rows, .box_rows = Results<Config>::kRows};
  params.results =
      sm90::make_ragged_map(plan.window(kResultsWindow, view.rank), dtype, results, Results<Config>::kCols);
  params.origins = reinterpret_cast<const Route*>(plan.window(kOriginsWindow, view.rank));
  cudaLaunchConfig_t config{};
  config.gridDim = sm90::num_blocks(layout.roles);
  config.blockDim = Config::kThreads;
  config.dynamicSmemBytes = kLayerBlockShared<Config, Element>;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, moe_layer_kernel<Config, Element, Pace>, params), "launch moe_layer");
}

// Queues the launch of one rank.
template <class Element, class Pace>
void launch_layer(const LayerLayout& layout, const RankView& view, const runtime::Plan& plan, const MoeLayerArgs& args,
                  const typename Pace::Setting& pace, cudaStream_t stream) {
  sm90::with_tile<MoeConfigs>({layout.tile_m, layout.tile_n, 1}, [&]<class Config>() {
    launch_layer<Config, Element, Pace>(layout, view, plan, args, pace, stream);
  });
}

template <DType kDType>
void LayerLauncher<kDType>::load() {
  load_layer<sm90::ElementOf<kDType>, sm90::NoPace>();
}

template <DType kDType>
void LayerLauncher<kDType>::launch(const LayerLayout& layout, const RankView& view, const runtime::Plan& plan,
                                   const MoeLayerArgs& args, Stream stream) {
  launch_layer<sm90::ElementOf<kDType>, sm90::NoPace>(layout, view, plan, args, {}, static_cast<cudaStream_t>(stream));
}

}  // namespace mk::moe
