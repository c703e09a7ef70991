// SPDX-License-Identifier: MIT
// bench/shapes.cc — see shapes.h.
//
// Which side of a problem binds depends on the world, so the lists say how compute shall stand to
// communication, and the one length on which only compute depends follows: N for ag_gemm, whose links
// carry M×K, and K for gemm_rs and gemm_ar, whose links carry M×N.
#include "bench/shapes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"

namespace mk::bench {
namespace {

struct Wish {
  int64_t m;
  int64_t side;    // K of ag_gemm, N of the others
  double balance;  // compute / communication
};

constexpr Wish kWishes[] = {
    {512, 2048, 1},   {1024, 4096, 0.45},  {2048, 4096, 1},    {4096, 4096, 0.3},
    {4096, 8192, 1},  {8192, 4096, 2.2},   {8192, 8192, 0.45}, {8192, 8192, 1},
    {16384, 4096, 1}, {16384, 8192, 0.45}, {16384, 8192, 2.2},
};

constexpr int64_t kGrain = 128;     // half a tile's columns, two steps of k
constexpr int64_t kUnbound = 4096;  // where nothing is sent

BenchCase with_free_side(const Wish& wish, OpKind op, const WorldShape& world, DType dtype, int64_t free_side) {
  const int64_t m = round_up<int64_t>(wish.m, world.size());
  if (op == OpKind::kAgGemm) return {op, world, m, free_side, wish.side, dtype};
  return {op, world, m, wish.side, free_side, dtype};
}

}  // namespace

double nominal_compute_us(const BenchCase& c) { return c.world.size() * c.flops_per_rank() / (kNominalTflops * 1e6); }

double balance_of(const BenchCase& c, const PaceSpec& pace) {
  const double communication = communication_us(traffic_of(c), pace, c.world.size());
  if (communication == 0) return std::numeric_limits<double>::infinity();
  return nominal_compute_us(c) / communication;
}

std::vector<BenchCase> default_shapes(OpKind op, const WorldShape& world, DType dtype) {
  std::vector<BenchCase> shapes;
  for (const Wish& wish : kWishes) {
    int64_t side = kUnbound;
    if (world.size() > 1) {
      // Compute grows with the free side and communication does not: one unit of it gives the ratio.
      const double per_unit = balance_of(with_free_side(wish, op, world, dtype, 1), kRealPace);
      side = std::max<int64_t>(1, std::llround(wish.balance / per_unit / kGrain)) * kGrain;
    }
    shapes.push_back(with_free_side(wish, op, world, dtype, side));
  }
  return shapes;
}

}  // namespace mk::bench
