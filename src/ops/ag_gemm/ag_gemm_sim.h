// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_sim.h — AllGather+GEMM's protocol under virtual time.
//
// SimData holds the inputs and outputs of every launch, so that a run on a small problem is checked
// element by element; predictions of large ones go without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/ag_gemm/ag_gemm_protocol.h"
#include "target/sim/sim_machine.h"

namespace mk::ag_gemm_op {

// Small whole numbers in fp32: every sum is exact, in any order.
class SimData {
 public:
  SimData(const Layout& layout, int launches, uint64_t seed);

  const std::byte* input(int rank, uint64_t epoch) const {
    return reinterpret_cast<const std::byte*>(a_[index(rank, epoch)].data());
  }

  // Multiplies `rows`, which hold a tile's rows of A, with the rank's B, into its C.
  void multiply(int rank, uint64_t epoch, const Tile& tile, const std::byte* rows);

  // Empty if every element of every launch is right and was written once; else the first that is not.
  std::string first_error() const;

 private:
  size_t index(int rank, uint64_t epoch) const { return (epoch - 1) * layout_.world.size() + rank; }

  Layout layout_;
  int launches_;
  std::vector<std::vector<float>> a_, b_, c_;  // [launch · ranks + rank]
  std::vector<std::vector<int>> visits_;       // of each tile of C, by row block of all shards and column block
};

// What a world needs to run this layout; `data` may be null.
sim::SimSpec sim_spec(const Layout& layout, const SimData* data);

// One worker's launch.
template <class M>
void simulate(M& m, const Layout& layout, const Post& post, SimData* data) {
  if (post.role != Layout::kCompute) return communicate(m, layout, post);
  for_each_tile(layout, m.rank(), post, [&](const Tile& tile) {
    if (!wait_for_rows(m, layout, tile)) return false;
    const bool own = tile.source == m.rank();
    const Range bytes = layout.chunk_bytes(tile.row_block);
    const uint64_t at = bytes.first + (own ? 0 : tile.source * layout.shard_bytes());
    const Place rows{own ? kInputWindow : kGatheredWindow, m.rank(), at};
    const double flops = 2.0 * layout.rows_of(tile.row_block).count * layout.cols_of(tile.col_block).count * layout.k;
    m.compute(rows, bytes.count, flops, tile.number);
    if (data != nullptr) data->multiply(m.rank(), m.epoch(), tile, m.sim().memory().at(rows, m.epoch()));
    return true;
  });
}

// Every launch on a world; with data, a wrong result is a complaint too.
template <class M = sim::SimMachine>
void simulate_world(sim::SimWorld& world, const Layout& layout, int launches, SimData* data) {
  world.run(launches, [&](sim::Worker& worker) {
    M machine(world, worker);
    simulate(machine, layout, worker.post, data);
  });
  if (data == nullptr || world.core().stopped()) return;
  if (const std::string error = data->first_error(); !error.empty()) world.core().complain("result", error);
}

}  // namespace mk::ag_gemm_op
