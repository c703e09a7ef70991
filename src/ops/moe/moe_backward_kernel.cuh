// SPDX-License-Identifier: MIT
// ops/moe/moe_backward_kernel.cuh — the persistent kernel of moe_layer_backward.
//
// Blocks are those of moe_layer_kernel.cuh.  The first GEMM's epilogue writes what it makes itself.  Tiles of the
// weights' gradients are products over the rows of an expert, so both of their operands lie across; they come last, and
// leave by TMA.
#pragma once

#include "base/cuda_api.h"
#include "ops/moe/backward_gates.cuh"
#include "ops/moe/layer_load.cuh"
#include "ops/moe/moe_backward_body.cuh"
#include "ops/moe/moe_backward_protocol.h"
#include "ops/moe/moe_backward_sm90.h"
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
struct QueuedBackwardTile {
  WeightTile tile;  // row_block only counts if it is of a weight
  bool is_weight = false;
  bool is_here = false;  // its operands came in time
  bool is_turn = false;  // no tile: those that follow may wait for what was computed before
};

template <class Config, class Element>
struct BackwardShared {
  sm90::GemmShared<Config, Element> gemm;
  sm90::TileQueue<QueuedBackwardTile> tiles;
  StoredTiles<QueuedBackwardTile> stored;
  SumsShared sums;
};
// The consumers' threads, the one that stores and the warp that tells.
template <class Config>
constexpr int kBackwardTakers = 128 * Config::kConsumers + 1 + 32;

constexpr int kBackwardJobRegisters = 104;
constexpr int kBackwardMathsRegisters = 200;
static_assert(sm90::registers_fit(kBackwardJobRegisters, 2, kBackwardMathsRegisters));

template <class Config, class Element>
constexpr size_t kBackwardBlockShared = sm90::kSharedFor<BackwardShared<Config, Element>, sm90::BulkBuffers>;

template <class Config>
using RowsOfDx = sm90::MixedBoxes<Config, 1>;

struct BackwardParams {
  RankView view;
  BackwardLayout layout;
  BackwardOperands operands;
  CUtensorMap dout;  // as the first GEMM's left operand
  CUtensorMap w2;
  CUtensorMap gradients;  // as the second GEMM's left operand
  CUtensorMap w13;
  CUtensorMap gradients_across;  // operands of products over rows
  CUtensorMap x_across;
  CUtensorMap dout_across;
  CUtensorMap scaled_across;
  CUtensorMap results;
  CUtensorMap dw13;
  CUtensorMap dw2;
  const Route* origins;
  std::byte* gradients_made;
  std::byte* scaled_made;
  float* parts_made;
};

// An expert without rows has gradients all the same: of a row that is not its own, times nothing.
template <class Config>
__device__ int weight_k_blocks(const WeightTile& tile) {
  return max(1, sm90::blocks_of_k<Config>(tile.rows));
}
struct ZeroIfEmpty {
  static constexpr int kFold = 1;
  bool is_empty;
  __device__ void operator()(float& x, float& y, int, int) const {
    if (is_empty) x = y = 0;
  }
};

template <class Config, class Element>
__device__ void load_tiles(const BackwardParams& p, const Post& post, int worker,
                           BackwardShared<Config, Element>& shared) {
  if (sm90::is_one_lane()) {
    shared.sums.failed = 0;
    shared.tiles.prepare(kBackwardTakers<Config>);
    shared.stored.prepare();
    for (const CUtensorMap* map : {&p.dout, &p.w2, &p.gradients, &p.w13}) sm90::prefetch_tensor_map(map);
  }
  __syncwarp();
  sm90::ClaimingMachine machine(p.view, post, worker, /*part=*/1);
  sm90::LoadJob<Config, Element, BOrder::kKN> job(shared.gemm);
  job.meet();
  sm90::TileGiver<QueuedBackwardTile> giver(shared.tiles);
  const auto give = [&](const QueuedBackwardTile& next) {
    if (sm90::is_one_lane()) giver.give(next);
    __syncwarp();
  };
  bool alive = true;
  const auto operands = [&](bool is_second) -> sm90::TileOperands {
    if (is_second) return {&p.gradients, &p.w13, sm90::blocks_of_k<Config>(2 * p.layout.inter)};
    return {&p.dout, &p.w2, sm90::blocks_of_k<Config>(p.layout.k)};
  };
  const bool goes_on = load_layer_tiles<Config>(
      machine, p.layout, post, job, operands, [&] { give({.is_turn = true}); },
      [&](const LayerTile& tile, bool is_here) { give({.tile = {tile}, .is_here = is_here}); }, alive);
  if (goes_on) {
    give({.is_turn = true});
    for_each_weight_tile(machine, p.layout, post, [&](const WeightTile& tile) {
      alive = alive && load_step(machine, p.layout, tile);
      give({.tile = tile, .is_weight = true, .is_here = alive});
      const sm90::TileCoords at{.row = tile.row_block * Config::kTileM, .col = tile.col_block * Config::kTileN};
      const CUtensorMap* const a = tile.is_second ? &p.dout_across : &p.gradients_across;
      const CUtensorMap* const b = tile.is_second ? &p.scaled_across : &p.x_across;
      const int row = tile.rows > 0 ? static_cast<int>(tile.row) : 0;
      job.load_over_rows({a, b, weight_k_blocks<Config>(tile)}, at, row, max(1, tile.rows));
      return true;
    });
  }
  job.finish();
  if (sm90::is_one_lane()) giver.end();
  __syncwarp();
  machine.close();
}

// The thread's first row of its tile.
template <class Config>
__device__ int own_row() {
  static_assert(Config::kSlabs == 1);
  const int thread = static_cast<int>(threadIdx.x) - 128;
  return (Config::kConsumersAlongM == 1 ? 0 : thread / 128 * Config::kPartM) + sm90::Fragment::sum_row(thread % 128, 0);
}

template <class Config, class Element, class Clamp>
__device__ BackwardGates<Element, Clamp> gates_of(const BackwardParams& p, const QueuedBackwardTile& next,
                                                  const Clamp& clamp) {
  const BackwardLayout& layout = p.layout;
  const LayerTile& tile = next.tile;
  const int rows = next.is_here ? tile.rows : 0;  // of a void tile nobody reads what is written
  const int col = tile.col_block * Config::kTileN;
  const GatesOfTile<Element> of{static_cast<const Element*>(p.operands.gates) + tile.row * 2 * layout.inter + col,
                                reinterpret_cast<Element*>(p.gradients_made) + tile.row * 2 * layout.inter + col,
                                reinterpret_cast<Element*>(p.scaled_made) + tile.row * layout.inter + col,
                                p.parts_made + tile.row * layout.act_blocks() + tile.col_block,
                                layout.act_blocks(),
                                static_cast<int>(layout.inter),
                                tile.rows,
                                static_cast<int>(layout.inter) - col};
  const Route* const origins = p.origins + tile.row;
  const int row = own_row<Config>();
  const auto weight = [&](int i) { return i < rows ? __ldcg(&origins[i].weight) : 0.0f; };
  return {of, row, weight(row), weight(row + 8), clamp};
}

template <class Config, class Element>
__device__ __forceinline__ void multiply_tiles(const BackwardParams& p, BackwardShared<Config, Element>& shared) {
  using Chain = sm90::MixedMathsJob<Config, Element, BOrder::kKN, sm90::NoBoxes<Config>, RowsOfDx<Config>>;
  using Weights = sm90::MathsJob<Config, Element, BOrder::kKN, sm90::Staging::kTensor, RowsOfDx<Config>>;
  sm90::TileTaker<QueuedBackwardTile> tiles(shared.tiles);
  const QueuedBackwardTile* next = tiles.look();
  Chain chain(shared.gemm);
  for (; next != nullptr && !next->is_weight; tiles.free(), next = tiles.look()) {
    if (next->is_turn) {
      chain.hand_out_all();
      continue;
    }
    const bool is_second = next->tile.is_second;
    const int k_blocks = sm90::blocks_of_k<Config>(is_second ? 2 * p.layout.inter : p.layout.k);
    const auto with_gates = [&](const auto& body) {
      with_clamp(p.layout.clamp, [&](const auto& clamp) { body(gates_of<Config, Element>(p, *next, clamp)); });
    };
    chain.multiply({.k_blocks = k_blocks}, !is_second, with_gates, sm90::Plain{});
  }
  chain.hand_out_all();
  Weights weights(chain.job());
  for (; next != nullptr; tiles.free(), next = tiles.look()) {
    weights.template multiply<sm90::AOrder::kKM>({.k_blocks = weight_k_blocks<Config>(next->tile)},
                                                 ZeroIfEmpty{next->tile.rows == 0});
  }
  tiles.free();
  weights.hand_out_all();
}

template <class Config, class Job>
__device__ void store_weight(const BackwardParams& p, const WeightTile& tile, bool is_here, Job& job) {
  using Boxes = RowsOfDx<Config>;
  job.template store<Boxes>([&](const auto* box, int row, int col) {
    const int32_t to[3] = {tile.col_block * Config::kTileN + col, tile.row_block * Config::kTileM + row, tile.expert};
    if (is_here) sm90::store_result(tile.is_second ? &p.dw2 : &p.dw13, to, box);
  });
}

// One thread.
template <class Config, class Element>
__device__ void store_tiles(const BackwardParams& p, BackwardShared<Config, Element>& shared) {
  sm90::prefetch_tensor_map(&p.results);
  sm90::StoreJob<Config, Element> job(shared.gemm);
  sm90::TileTaker<QueuedBackwardTile> tiles(shared.tiles);
  StoredCursor<QueuedBackwardTile> stored(shared.stored);
  QueuedBackwardTile next;
  while (tiles.take(next)) {
    if (next.is_turn) continue;
    if (next.is_weight) {
      store_weight<Config>(p, next.tile, next.is_here, job);
      continue;
    }
    if (next.tile.is_second) {
      store_rows<RowsOfDx<Config>>(job, &p.results, next.tile, next.is_here);
    } else {
      job.template store<sm90::NoBoxes<Config>>([](const Element*, int, int) {});
    }
    stored.say();
  }
  job.finish_reads();
}

// One warp.  Nobody waits for gradients of weights.
template <class Config, class Element>
__device__ void tell_of_tiles(const BackwardParams& p, const Post& post, int worker,
                              BackwardShared<Config, Element>& shared) {
  sm90::Sm90Machine<sm90::WarpCrew> machine(p.view, post, worker, {}, sm90::NoPace());
  Scores scores{p.view, p.layout};
  sm90::TileTaker<QueuedBackwardTile> tiles(shared.tiles);
  StoredCursor<QueuedBackwardTile> stored(shared.stored);
  for (const QueuedBackwardTile* next = tiles.look(); next != nullptr; tiles.free(), next = tiles.look()) {
    if (next->is_turn || next->is_weight) continue;
    tell_when_stored(machine, p.layout, next->tile, next->is_here, stored, scores);
  }
  tiles.free();
  machine.close();
}

// What a warp that is a worker does: one of a communication block sends, one inside a compute block dispatches.
template <class Element>
__device__ auto sending(const BackwardParams& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces& pieces) MK_INLINE_LAMBDA {
    if (!send_all(machine, p.layout, post)) return;
    const sm90::PieceSum<Element> sum(pieces, machine.num_copied());
    BackwardBody<sm90::PieceSum<Element>> body(p.view, p.layout, p.operands, nullptr, sum);
    return_sums(machine, p.layout, post, body);
  };
}
template <class Element>
__device__ auto dispatching(const BackwardParams& p) {
  return [&p](auto& machine, const Post& post, const sm90::BulkPieces& pieces) MK_INLINE_LAMBDA {
    BackwardBody<sm90::NoSum> body(p.view, p.layout, p.operands, pieces.data);
    dispatch(machine, p.layout, post, body);
  };
}

template <class Config, class Element>
__device__ __forceinline__ void compute_block(const BackwardParams& p, const Post& post, int worker,
                                              std::byte* memory) {
  auto& shared = *reinterpret_cast<BackwardShared<Config, Element>*>(memory);
  if (threadIdx.x >= 128) {
    sm90::begin_jobs<Config>();
    sm90::take_registers<kBackwardMathsRegisters>();
    multiply_tiles<Config, Element>(p, shared);
    BackwardBody<sm90::RowSum<Element, 8, 2>> body(p.view, p.layout, p.operands, nullptr);
    sum_own_tokens<Config>(p.view, p.layout, post, worker, shared.sums, body);
    return;
  }
  sm90::give_registers<kBackwardJobRegisters>();
  if (threadIdx.x < 32) return load_tiles<Config, Element>(p, post, worker, shared);
  if (threadIdx.x < 64) sm90::prepare_stores(shared.gemm);
  sm90::begin_jobs<Config>();
  if (threadIdx.x < 64) {
    if (sm90::is_one_lane()) store_tiles(p, shared);
  } else if (threadIdx.x < 96) {
    tell_of_tiles(p, post, worker, shared);
  } else {
    const Post inside = p.layout.roles.post_inside(1, post.index);
    sm90::run_worker<sm90::NoPace>(p.view, inside, worker + 1, {}, shared.gemm.inside.pieces(),
                                   dispatching<Element>(p));
  }
}

template <class Config, class Element>
__global__ void __launch_bounds__(Config::kThreads, 1) moe_backward_kernel(const __grid_constant__ BackwardParams p) {
  std::byte* const memory = sm90::block_memory();
  const Roster& roles = p.layout.roles;
  const int compute = static_cast<int>(blockIdx.x) - sm90::communication_blocks(roles);
  if (compute >= 0) {
    const Post post{Layout::kCompute, compute, roles.num_compute()};
    compute_block<Config, Element>(p, post, roles.compute_worker(compute), memory);
  } else {
    sm90::run_communication_block<sm90::NoPace>(p.view, roles, {}, memory, sending<Element>(p));
  }
  __syncthreads();
  sm90::leave_block(p.view, roles);
}

// The one tile there is.
using BackwardConfig = sm90::GemmConfig<128, 256, 2, 1, 1>;
static_assert(BackwardConfig::kTileM <= kMostTileRows);

template <class Config>
BackwardParams params_of(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                         const MoeLayerBackwardArgs& args) {
  const DType dtype = args.w2.dtype;
  const int64_t experts = layout.local_experts();
  const auto memory = [&](const Place& at) { return plan.window(at.window, view.rank) + at.offset; };
  const auto left = [&](const void* data, int64_t cols) {
    return sm90::make_tensor_map(sm90::ShardedMatrix{data, dtype, cols, layout.max_rows, 1}, Config::kTileK,
                                 Config::kTileM);
  };
  // They begin lead_rows before their first row.
  const auto across = [&](const void* data, int64_t cols) {
    return sm90::make_ragged_map(
        data, dtype, sm90::RaggedRows{.cols = cols, .rows = layout.max_rows, .box_rows = Config::kTileK}, Config::kBox);
  };
  const auto out = [&](const Tensor& tensor, int64_t rows) {
    return sm90::make_tensor_map(sm90::ShardedMatrix{tensor.data, dtype, tensor.cols, rows, experts}, Config::kBox,
                                 Config::kBox);
  };
  BackwardParams params{.view = view, .layout = layout, .operands = operands_of(args)};
  const std::byte* const dout = memory(layout.row_at(view.rank, 0, kDoutPart));
  const std::byte* const x = memory(layout.row_at(view.rank, 0, kXPart));
  params.gradients_made = memory(layout.activation_at(view.rank, 0));
  params.scaled_made = memory(layout.scaled_at(view.rank, 0));
  params.parts_made = reinterpret_cast<float*>(memory(layout.part_at(view.rank, 0)));
  params.origins = reinterpret_cast<const Route*>(memory(layout.origin_at(view.rank, 0)));
  params.dout = left(dout, layout.k);
  params.w2 = sm90::make_right_map<Config, BOrder::kKN>(args.w2.data, dtype, layout.inter, layout.k, experts);
  params.gradients = left(params.gradients_made, 2 * layout.inter);
  params.w13 = sm90::make_right_map<Config, BOrder::kKN>(args.w13.data, dtype, layout.n, 2 * layout.inter, experts);
  params.gradients_across = across(params.gradients_made, 2 * layout.inter);
  params.x_across = across(x, layout.k);
  params.dout_across = across(dout, layout.k);
  params.scaled_across = across(params.scaled_made, layout.inter);
  const sm90::RaggedRows results{.cols = layout.n, .rows = layout.max_rows, .box_rows = RowsOfDx<Config>::kRows};
  params.results =
      sm90::make_ragged_map(plan.window(kResultsWindow, view.rank), dtype, results, RowsOfDx<Config>::kCols);
  params.dw13 = out(args.dw13, 2 * layout.inter);
  params.dw2 = out(args.dw2, layout.k);
  return params;
}

template <DType kDType>
void BackwardLauncher<kDType>::load() {
  using Element = sm90::ElementOf<kDType>;
  load_kernel(reinterpret_cast<const void*>(moe_backward_kernel<BackwardConfig, Element>),
              kBackwardBlockShared<BackwardConfig, Element>);
}

template <DType kDType>
void BackwardLauncher<kDType>::launch(const BackwardLayout& layout, const RankView& view, const runtime::Plan& plan,
                                      const MoeLayerBackwardArgs& args, Stream stream) {
  using Element = sm90::ElementOf<kDType>;
  static_assert(kBackwardBlockShared<BackwardConfig, Element> <= sm90::kSharedLimit);
  const BackwardParams params = params_of<BackwardConfig>(layout, view, plan, args);
  cudaLaunchConfig_t config{};
  config.gridDim = sm90::num_blocks(layout.roles);
  config.blockDim = BackwardConfig::kThreads;
  config.dynamicSmemBytes = kBackwardBlockShared<BackwardConfig, Element>;
  config.stream = static_cast<cudaStream_t>(stream);
  check_cuda(cudaLaunchKernelEx(&config, moe_backward_kernel<BackwardConfig, Element>, params),
             "launch moe_layer_backward");
}

}  // namespace mk::moe
