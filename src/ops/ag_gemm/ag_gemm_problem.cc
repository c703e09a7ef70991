// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_problem.cc — checks of the caller's arguments, the choice of roles, the layout.
#include "ops/ag_gemm/ag_gemm_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "base/math.h"
#include "ops/ag_gemm/ag_gemm_configs.h"
#include "target/sm90/gemm_config.h"

namespace mk::ag_gemm_op {
namespace {

void check_tensor(const Tensor& tensor, const char* name, int rank, int64_t rows, int64_t cols, DType dtype,
                  DeviceKind device) {
  check_arg(tensor.data != nullptr, "{} of rank {} is a null pointer", name, rank);
  check_arg(tensor.rows == rows && tensor.cols == cols, "{} of rank {} is {}x{}; it must be {}x{}", name, rank,
            tensor.rows, tensor.cols, rows, cols);
  check_arg(tensor.dtype == dtype, "{} of rank {} is {}; a of rank 0 is {} and all tensors must agree", name, rank,
            name_of(tensor.dtype), name_of(dtype));
  const uintptr_t alignment = device == DeviceKind::kCuda ? 16 : size_of(dtype);
  check_arg(reinterpret_cast<uintptr_t>(tensor.data) % alignment == 0,
            "{} of rank {} is at {}; its address must be a multiple of {} bytes", name, rank, tensor.data, alignment);
}

}  // namespace

void check_problem(const Problem& problem, DeviceKind device) {
  const int world = problem.world.size();
  check_arg(problem.m >= 1, "m is {}; it must be at least 1", problem.m);
  check_arg(problem.n >= 1, "n is {}; it must be at least 1", problem.n);
  check_arg(problem.k >= 1, "k is {}; it must be at least 1", problem.k);
  check_arg(problem.m % world == 0, "m is {}; it must be a multiple of the world size {}", problem.m, world);
  constexpr int64_t kLargest = int64_t{1} << 31;
  check_arg(problem.m < kLargest, "m is {}; it must be below 2^31", problem.m);
  check_arg(problem.n < kLargest, "n is {}; it must be below 2^31", problem.n);
  check_arg(problem.k < kLargest, "k is {}; it must be below 2^31", problem.k);
  check_arg(problem.dtype == DType::kBf16 || problem.dtype == DType::kFp16 || problem.dtype == DType::kFp32,
            "dtype is {}; it must be bf16, fp16 or fp32", static_cast<int>(problem.dtype));
  constexpr int64_t kMostElements = int64_t{1} << 40;  // tiles are counted in 32 bits
  check_arg(problem.m <= kMostElements / problem.k && problem.m <= kMostElements / problem.n &&
                problem.k <= kMostElements / problem.n,
            "m, n and k are {}, {} and {}; no tensor may have more than 2^40 elements", problem.m, problem.n,
            problem.k);
  if (device != DeviceKind::kCuda) return;
  check_arg(problem.n % 8 == 0, "n is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", problem.n);
  check_arg(problem.k % 8 == 0, "k is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", problem.k);
  check_arg(problem.dtype != DType::kFp32, "dtype is fp32; on cuda it must be bf16 or fp16");
}

Problem problem_of(const WorldShape& world, std::span<const AgGemmArgs> args) {
  check_arg(args.size() == static_cast<size_t>(world.size()), "args has {} entries; the world has {} ranks",
            args.size(), world.size());
  const bool is_kn = args[0].b_order == BOrder::kKN;
  return {world,          args[0].c.rows,  is_kn ? args[0].b.cols : args[0].b.rows,
          args[0].a.cols, args[0].a.dtype, args[0].b_order};
}

void check_args(const Problem& problem, std::span<const AgGemmArgs> args, DeviceKind device) {
  for (size_t i = 0; i < args.size(); ++i) {
    const int rank = static_cast<int>(i);
    check_tensor(args[i].a, "a", rank, problem.m / problem.world.size(), problem.k, problem.dtype, device);
    check_arg(args[i].b_order == problem.b_order, "b_order of rank {} is not that of rank 0", rank);
    check_arg(args[i].activation == args[0].activation, "activation of rank {} is not that of rank 0", rank);
    const bool is_kn = problem.b_order == BOrder::kKN;
    check_tensor(args[i].b, "b", rank, is_kn ? problem.k : problem.n, is_kn ? problem.n : problem.k, problem.dtype,
                 device);
    check_tensor(args[i].c, "c", rank, problem.m, problem.n, problem.dtype, device);
    if (args[i].bias.data != nullptr) check_tensor(args[i].bias, "bias", rank, 1, problem.n, problem.dtype, device);
    check_arg(device == DeviceKind::kCuda || args[i].stream == nullptr,
              "stream of rank {} is set; CPU worlds take null only", rank);
  }
}

// As many row blocks as make a wave of tiles as high as it is wide: then it reads the least.
static int band_of(int tile_m, int tile_n, int tiles_at_once) {
  return std::max(1, static_cast<int>(std::lround(std::sqrt(double(tiles_at_once) * tile_n / tile_m))));
}

TileShape choose_tile(const Problem& problem, const TileSize& asked, DeviceKind device, const RoleCounts& roles) {
  if (device != DeviceKind::kCuda) {
    check_arg(asked.m == 0 && asked.n == 0, "tile is {}x{}; on a cpu it cannot be chosen", asked.m, asked.n);
    return kCpuTile;
  }
  const int64_t shards = problem.world.size();
  const sm90::GemmBlocks blocks{roles.compute, roles.total() - roles.compute};
  sm90::GemmTile tile{asked.m, asked.n, asked.cluster};
  if (tile == sm90::GemmTile{0, 0, 0}) {
    tile = sm90::choose_tile(sm90::kGemmTiles, {problem.m / shards, shards, problem.n, problem.k}, blocks);
  }
  check_arg(sm90::has_tile(sm90::kGemmTiles, tile), "tile is {}x{}x{}; it must be one of {}", tile.m, tile.n,
            tile.cluster, sm90::names_of(sm90::kGemmTiles));
  check_arg(sm90::fits(tile, blocks),
            "tile.cluster is {}; with {} workers that compute and {} that do not it must be 1", tile.cluster,
            blocks.compute, blocks.others);
  const int rows = tile.m * tile.cluster;
  return {.m = rows, .n = tile.n, .band = band_of(rows, tile.n, roles.compute / tile.cluster), .cluster = tile.cluster};
}

RoleCounts choose_roles(const Problem& problem, const Split& asked, int workers) {
  const bool has_peers = problem.world.ranks > 1;
  const bool has_nodes = problem.world.nodes > 1;
  const bool open = asked.compute == 0 && asked.intra == 0 && asked.send == 0 && asked.forward == 0;
  if (open) {
    // Eight to nine blocks saturate NVLink, so communication takes a sixteenth of the workers up to that.
    const int share = std::clamp(workers / 16, 1, 8);
    RoleCounts roles;
    roles.intra = has_peers ? share : 0;
    roles.send = has_nodes ? std::clamp(share / 2, 1, 2) : 0;
    roles.forward = has_peers && has_nodes ? share : 0;
    roles.compute = std::max(1, workers - roles.total());
    check_arg(roles.total() <= workers, "the world has {} ranks, which leaves {} workers a rank; {} are needed",
              problem.world.size(), workers, roles.total());
    return roles;
  }
  check_arg(asked.compute >= 1, "split.compute is {}; it must be at least 1", asked.compute);
  check_arg(has_peers ? asked.intra >= 1 : asked.intra == 0, "split.intra is {}; with {} ranks a node it must be {}",
            asked.intra, problem.world.ranks, has_peers ? "at least 1" : "0");
  check_arg(has_nodes ? asked.send >= 1 : asked.send == 0, "split.send is {}; with {} nodes it must be {}", asked.send,
            problem.world.nodes, has_nodes ? "at least 1" : "0");
  const bool forwards = has_peers && has_nodes;
  check_arg(forwards ? asked.forward >= 1 : asked.forward == 0,
            "split.forward is {}; with {} nodes of {} ranks it must be {}", asked.forward, problem.world.nodes,
            problem.world.ranks, forwards ? "at least 1" : "0");
  for (const int count : {asked.compute, asked.intra, asked.send, asked.forward}) {  // each, so that no sum overflows
    check_arg(count <= workers, "split asks for {} workers in one role; a rank of this world has {}", count, workers);
  }
  check_arg(asked.total() <= workers, "split asks for {} workers; a rank of this world has {}", asked.total(), workers);
  return {asked.intra, asked.send, asked.forward, asked.compute};
}

Layout make_layout(const Problem& problem, const TileShape& tile, const RoleCounts& roles) {
  Layout layout;
  layout.world = problem.world;
  layout.shard_rows = problem.m / problem.world.size();
  layout.n = problem.n;
  layout.k = problem.k;
  layout.element_bytes = size_of(problem.dtype);
  layout.b_order = problem.b_order;
  layout.tile_m = tile.m;
  layout.tile_n = tile.n;
  layout.row_blocks = static_cast<int>(ceil_div<int64_t>(layout.shard_rows, tile.m));
  layout.col_blocks = static_cast<int>(ceil_div<int64_t>(problem.n, tile.n));
  layout.band = tile.band;
  layout.cluster = tile.cluster;
  layout.roles = roles;
  return layout;
}

std::string signal_name(const Layout& layout, uint32_t signal) {
  const uint32_t size = static_cast<uint32_t>(layout.world.size());
  if (signal < size) return fmt::format("ready[rank {}]", signal);
  return fmt::format("arrived[rank {}, chunk {}]", (signal - size) / layout.row_blocks,
                     (signal - size) % layout.row_blocks);
}

}  // namespace mk::ag_gemm_op
