// SPDX-License-Identifier: MIT
// target/h200.h — every rate and overhead of an H200 that the cost models use, with its origin.
//
// The operators choose splits and tiles by these numbers (ops/cost_model.h, target/sm90/gemm_config.h), and the
// simulator predicts with them (target/sim/costs.h).  "Measured" is docs/performance.md; "fitted" is the calibration in
// docs/simulation.md.  A rate is for one GPU with all its SMs unless its name says otherwise.
#pragma once

#include <array>
#include <cstdint>

#include "base/math.h"

namespace mk::h200 {

constexpr int kSms = 132;

// What an SM computes with the best tile, all SMs at once.  Measured: 5.3 to 6.2 at the shapes of "The GEMM, world
// 1×1".
constexpr double kFlopsPerSmSecond = 6e12;

// Links of a GPU, per direction.  Data sheets: NVLink 4, and a NIC of 400 Gbit/s.
constexpr double kNvlinkPerSecond = 450e9;
constexpr double kNetworkPerSecond = 50e9;
// What large transfers reach of these in the field's published figures.
constexpr double kReachedNvlinkPerSecond = 370e9;
constexpr double kReachedNetworkPerSecond = 46e9;

// Copies of one worker that has an SM to itself.  Measured: one block whose one thread moves 16 KiB at a time has 50
// GB/s, 8 such blocks have 399, 16 have 792, all have 1900.  The last is the memory's limit, which no operator is near.
constexpr double kCopiedPerSmSecond = 50e9;

// Bytes that the eight communication workers of an SM read and write together; a copy counts twice.  Measured: such an
// SM copies 44 GB/s, 42 GB/s beside a GEMM, and reads 45 to 56 GB/s of what it sums.
constexpr double kMovedPerSmSecond = 80e9;
constexpr double kMovedPerWorkerSecond = kMovedPerSmSecond / 8;

// Of that rate, where workers sum: they add in registers what copies leave to the bulk copy engine.  From the sweeps of
// sums in one node.
constexpr double kSumPace = 0.75;

// Bytes that a worker reads and writes at most, if nobody else uses its SM.  Fitted.  It has 16 KiB in flight.
constexpr double kMostMovedPerWorkerSecond = 16e9;
// A worker inside a compute block has half as much in flight, and half of that rate.
constexpr double kInsideShare = 0.5;

// A block of k: what the best tile, 128 × 256, multiplies in one step.
constexpr int kBlockM = 128;
constexpr int kBlockN = 256;
constexpr int kBlockK = 64;
constexpr double kFlopsPerBlock = 2.0 * kBlockM * kBlockN * kBlockK;
constexpr double kSecondsPerBlock = kFlopsPerBlock / kFlopsPerSmSecond;

// Overheads of a usual tile, in blocks of k.
constexpr double kUsualLaunch = 3;
constexpr double kUsualBorder = 0.25;

// What a tile costs.  Measured, by trying each on the shapes of "The GEMM, world 1×1".
struct TileCost {
  int m = 0;  // of one block
  int n = 0;
  int cluster = 1;
  double rate = 1;               // of its mainloop, beside the best
  double launch = kUsualLaunch;  // blocks of k: filling the pipeline, and the last store
  double border = kUsualBorder;  // blocks of k: between two tiles

  // Of its own blocks of k, in those of the best tile.
  constexpr double block_cost() const { return m * n / (double{kBlockM} * kBlockN) / rate; }
};

constexpr std::array<TileCost, 7> kTileCosts = {{{128, 256, 2, 1.0, 6, 0},  // starts later, reads less from the L2
                                                 {128, 256, 1, 0.995},
                                                 {256, 128, 1, 0.95},
                                                 {128, 224, 1, 0.91},
                                                 {128, 192, 1, 0.96},
                                                 {128, 128, 1, 0.89},
                                                 {64, 128, 1, 0.6}}};

// Of a tile that is not in the table, as of a CPU's: no better or worse than the best.
constexpr TileCost cost_of_tile(int m, int n, int cluster) {
  for (const TileCost& its : kTileCosts) {
    if (its.m == m && its.n == n && its.cluster == cluster) return its;
  }
  return {m, n, cluster};
}

constexpr double blocks_of_k(int64_t k) { return static_cast<double>(ceil_div<int64_t>(k, kBlockK)); }

}  // namespace mk::h200
