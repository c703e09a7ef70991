// SPDX-License-Identifier: MIT
// ops/gemm/gemm_problem.cc — see gemm_problem.h.
#include "ops/gemm/gemm_problem.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"
#include "target/sm90/gemm_config.h"

namespace mk::gemm {

int64_t cols_of(const Tensor& b, BOrder order) { return order == BOrder::kNK ? b.rows : b.cols; }

int band_of(int tile_m, int tile_n, int tiles_at_once) {
  const double square = std::sqrt(static_cast<double>(tiles_at_once) * tile_n / tile_m);
  return std::max(1, static_cast<int>(std::lround(square / 2)));
}

TileShape gpu_tile(const Problem& problem, int64_t shards, int blocks) {
  const sm90::GemmTile tile =
      sm90::choose_tile(sm90::kSoloTiles, {problem.m / shards, shards, problem.n, problem.k}, {.compute = blocks});
  return {.m = tile.m, .n = tile.n, .band = band_of(tile.m, tile.n, blocks)};
}

void check_sizes(const Problem& problem, DeviceKind device) {
  check_arg(problem.m >= 1, "m is {}; it must be at least 1", problem.m);
  check_arg(problem.n >= 1, "n is {}; it must be at least 1", problem.n);
  check_arg(problem.k >= 1, "k is {}; it must be at least 1", problem.k);
  constexpr int64_t kLargest = int64_t{1} << 31;
  check_arg(problem.m < kLargest, "m is {}; it must be below 2^31", problem.m);
  check_arg(problem.n < kLargest, "n is {}; it must be below 2^31", problem.n);
  check_arg(problem.k < kLargest, "k is {}; it must be below 2^31", problem.k);
  check_arg(problem.dtype == DType::kBf16 || problem.dtype == DType::kFp16 || problem.dtype == DType::kFp32,
            "dtype is {}; it must be bf16, fp16 or fp32", static_cast<int>(problem.dtype));
  check_arg(problem.b_order == BOrder::kKN || problem.b_order == BOrder::kNK, "b_order is {}; it must be kKN or kNK",
            static_cast<int>(problem.b_order));
  constexpr int64_t kMostElements = int64_t{1} << 56;  // a window may hold several images of m x n
  check_arg(problem.m <= kMostElements / problem.k && problem.m <= kMostElements / problem.n &&
                problem.k <= kMostElements / problem.n,
            "m, n and k are {}, {} and {}; no tensor may have more than 2^56 elements", problem.m, problem.n,
            problem.k);
  if (device != DeviceKind::kCuda) return;
  check_arg(problem.n % 8 == 0, "n is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", problem.n);
  check_arg(problem.k % 8 == 0, "k is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", problem.k);
  check_arg(problem.dtype != DType::kFp32, "dtype is fp32; on cuda it must be bf16 or fp16");
}

void check_world_divides_m(const Problem& problem) {
  check_arg(problem.m % problem.world.size() == 0, "m is {}; it must be a multiple of the world size {}", problem.m,
            problem.world.size());
}

void check_num_tiles(const Problem& problem, int64_t tiles) {
  constexpr int64_t kMost = int64_t{1} << 28;
  check_arg(tiles <= kMost, "m and n are {} and {}, which makes {} tiles; there may be 2^28 at most", problem.m,
            problem.n, tiles);
}

void check_tensor(const Tensor& tensor, const char* name, int rank, int64_t rows, int64_t cols, DType dtype,
                  DeviceKind device) {
  check_arg(tensor.data != nullptr, "{} of rank {} is a null pointer", name, rank);
  check_arg(tensor.rows == rows && tensor.cols == cols, "{} of rank {} is {}x{}; it must be {}x{}", name, rank,
            tensor.rows, tensor.cols, rows, cols);
  check_arg(tensor.dtype == dtype, "{} of rank {} is {}; all tensors must be {}, as those of rank 0", name, rank,
            name_of(tensor.dtype), name_of(dtype));
  const uintptr_t alignment = device == DeviceKind::kCuda ? 16 : size_of(dtype);
  check_arg(reinterpret_cast<uintptr_t>(tensor.data) % alignment == 0,
            "{} of rank {} is at {}; its address must be a multiple of {} bytes", name, rank, tensor.data, alignment);
}

Problem problem_of(const WorldShape& world, const runtime::Members& members, std::span<const GemmArgs> args) {
  check_arg(args.size() == static_cast<size_t>(members.count), "args has {} entries; {} ranks of the world are here",
            args.size(), members.count);
  const GemmArgs& first = args[0];
  return {world, first.a.rows, cols_of(first.b, first.b_order), first.a.cols, first.a.dtype, first.b_order};
}

void check_rank(const Problem& problem, int rank, const GemmArgs& args, int64_t a_rows, int64_t c_rows,
                DeviceKind device) {
  const bool is_kn = problem.b_order == BOrder::kKN;
  check_arg(args.b_order == problem.b_order, "b_order of rank {} is {}; rank 0 has {} and all must agree", rank,
            name_of(args.b_order), name_of(problem.b_order));
  check_tensor(args.a, "a", rank, a_rows, problem.k, problem.dtype, device);
  check_tensor(args.b, "b", rank, is_kn ? problem.k : problem.n, is_kn ? problem.n : problem.k, problem.dtype, device);
  check_tensor(args.c, "c", rank, c_rows, problem.n, problem.dtype, device);
  check_arg(device == DeviceKind::kCuda || args.stream == nullptr,
            "stream of rank {} is set; CPU worlds take null only", rank);
}

void check_args(const Problem& problem, const runtime::Members& members, std::span<const GemmArgs> args, int64_t c_rows,
                DeviceKind device) {
  for (size_t i = 0; i < args.size(); ++i) {
    check_rank(problem, members.first + static_cast<int>(i), args[i], problem.m, c_rows, device);
  }
}

std::string plan_key(const std::string& op, const Problem& problem, const std::string& roles) {
  return fmt::format("{} {}x{}x{} {} {}", op, problem.m, problem.n, problem.k, name_of(problem.dtype), roles);
}

}  // namespace mk::gemm
