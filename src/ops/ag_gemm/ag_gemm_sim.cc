// SPDX-License-Identifier: MIT
// ops/ag_gemm/ag_gemm_sim.cc — inputs, tile maths and the check of a simulated run.
#include "ops/ag_gemm/ag_gemm_sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "target/cpu/cpu_gemm.h"
#include "target/sim/random.h"

namespace mk::ag_gemm_op {

SimData::SimData(const Layout& layout, int launches, uint64_t seed) : layout_(layout), launches_(launches) {
  sim::Random random(seed ^ 0x5eedda7aULL);
  const auto whole_numbers = [&](int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(static_cast<int>(random.below(17)) - 8);
    return values;
  };
  const int ranks = layout.world.size();
  for (int i = 0; i < launches * ranks; ++i) {
    a_.push_back(whole_numbers(layout.shard_rows * layout.k));
    b_.push_back(whole_numbers(layout.k * layout.n));
    c_.emplace_back(layout.shard_rows * ranks * layout.n, std::numeric_limits<float>::quiet_NaN());
    visits_.emplace_back(layout.num_tiles());
  }
}

void SimData::multiply(int rank, uint64_t epoch, const Tile& tile, const std::byte* rows) {
  const size_t at = index(rank, epoch);
  const Range r = layout_.rows_of(tile.row_block);
  const Range c = layout_.cols_of(tile.col_block);
  float* out = c_[at].data() + (tile.source * layout_.shard_rows + r.first) * layout_.n + c.first;
  cpu::gemm_tile(reinterpret_cast<const float*>(rows), b_[at].data() + c.first, out, r.count, c.count, layout_.k,
                 layout_.n, layout_.n);
  ++visits_[at][(tile.source * layout_.row_blocks + tile.row_block) * layout_.col_blocks + tile.col_block];
}

std::string SimData::first_error() const {
  const int ranks = layout_.world.size();
  for (int i = 0; i < launches_ * ranks; ++i) {
    const int epoch = i / ranks + 1;
    const int rank = i % ranks;
    for (size_t tile = 0; tile < visits_[i].size(); ++tile) {
      if (visits_[i][tile] == 1) continue;
      return fmt::format("launch {}: rank {} computed tile {} of C {} times", epoch, rank, tile, visits_[i][tile]);
    }
    for (int64_t row = 0; row < layout_.shard_rows * ranks; ++row) {
      const float* a =
          a_[index(static_cast<int>(row / layout_.shard_rows), epoch)].data() + row % layout_.shard_rows * layout_.k;
      for (int64_t col = 0; col < layout_.n; ++col) {
        float sum = 0;
        for (int64_t k = 0; k < layout_.k; ++k) sum += a[k] * b_[i][k * layout_.n + col];
        const float got = c_[i][row * layout_.n + col];
        if (got == sum) continue;
        return fmt::format("launch {}: c[{}, {}] of rank {} is {}, not {}", epoch, row, col, rank, got, sum);
      }
    }
  }
  return {};
}

sim::SimSpec sim_spec(const Layout& layout, const SimData* data) {
  sim::SimSpec spec;
  spec.world = layout.world;
  spec.roles = layout.roles;
  spec.window_bytes = {static_cast<uint64_t>(layout.gathered_bytes())};
  spec.num_signals = layout.num_signals();
  spec.names = {Layout::kRoles, [layout](uint32_t signal) { return signal_name(layout, signal); }};
  spec.with_data = data != nullptr;
  spec.put_lanes = std::max(1, (layout.world.nodes - 1) * (static_cast<int>(layout.num_parts()) + 1));  // and ready
  if (data != nullptr) spec.input = [data](int rank, uint64_t epoch, int) { return data->input(rank, epoch); };
  return spec;
}

}  // namespace mk::ag_gemm_op
