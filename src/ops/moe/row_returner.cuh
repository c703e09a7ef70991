// SPDX-License-Identifier: MIT
// ops/moe/row_returner.cuh — a warp writes the rows of a tile's result each to its own place.
//
// One warp does not keep up with the second GEMM, whose k is short.  Where consumers have rows of their own, each has a
// warp, and the part of the tile with its rows is that warp's tile.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/rank_view.h"
#include "ops/moe/moe_layer_protocol.h"
#include "target/sm90/gemm_store.cuh"

namespace mk::moe {

template <class Config>
constexpr bool kStoresApart = Config::kConsumersAlongM == Config::kConsumers;
template <class Config>
constexpr int kStoreWarps = kStoresApart<Config> ? Config::kConsumers : 1;

// The body of return_rows.  All lanes call each function.  `part` is the number of the warp; tiles are its parts.
template <class Config, class Element, class Results, AnyLayerLayout L = LayerLayout>
class RowReturner {
 public:
  using Job = std::conditional_t<kStoresApart<Config>, sm90::ConsumerStoreJob<Config, Element>,
                                 sm90::StoreJob<Config, Element>>;

  __device__ RowReturner(const RankView& view, const L& layout, sm90::GemmShared<Config, Element>& shared, int part)
      : view_(view), layout_(layout), job_(make_job(shared, part)), first_(part * kRows) {}

  __device__ Job& job() { return job_; }

  // The warp's part of a tile; it may have no rows.
  template <class Tile>
  __device__ Tile part_of(Tile tile) const {
    tile.row += first_;
    tile.rows = max(0, min(kRows, tile.rows - first_));
    return tile;
  }
  // A row of a tile in the part.
  __device__ int row_in_part(int row) const { return row - first_; }

  // Before the tile's results are there.  A lane for each row.
  template <class ToAt>
  __device__ void return_rows(const LayerTile& tile, int first, int some, const ToAt& to_at) {
    std::byte* const row = lane() < some ? view_.windows.resolve(layout_.world, to_at(lane())) : nullptr;
    if constexpr (L::kHasScores) {
      if (tile.col_block == 0 && lane() < some) {
        *reinterpret_cast<float*>(row + layout_.scored_row_bytes()) = score_of(tile.row + first + lane());
      }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (first == 32 * group) to_[group] = row;
    }
  }

  __device__ void write_rows(const LayerTile& tile) {
    const int cols = static_cast<int>(layout_.n) - tile.col_block * Config::kTileN;
    job_.template read<Results>([&](const Element* box, int row, int col) {
      const int first = row_in_part(row);
      if (first < tile.rows) write_box(box, first, tile.rows - first, col, cols - col);
    });
  }
  // Nothing of a tile.
  __device__ void drop() {
    job_.template read<Results>([](const Element*, int, int) {});
  }

 private:
  using Image = sm90::BoxImage;

  __device__ static Job make_job(sm90::GemmShared<Config, Element>& shared, int part) {
    if constexpr (kStoresApart<Config>) {
      return Job(shared, part);
    } else {
      return Job(shared);
    }
  }
  static_assert(Results::kNarrow == 0 && !Results::kLastThroughA && Config::kTileM % 64 == 0);

  static constexpr int kRows = Config::kTileM / kStoreWarps<Config>;
  static constexpr int kGroups = kRows / 32;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // In the order of its parts.
  __device__ float score_of(int64_t row) const {
    const auto* const parts =
        reinterpret_cast<const float*>(view_.windows.resolve(layout_.world, layout_.part_at(view_.rank, row)));
    float score = 0;
#pragma unroll 1
    for (int part = 0; part < layout_.act_blocks(); ++part) score += __ldcg(parts + part);
    return score;
  }

  // A lane has one vector of each fourth row: eight of them write a line.
  __device__ void write_box(const Element* box, int first_row, int rows, int first_col, int cols) const {
    const int vector = lane() % 8;
    const bool is_col = vector * Image::kVectorCols < cols;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::byte* own = to_[half];
#pragma unroll
      for (int group = 2; group < kGroups; group += 2) own = first_row == 32 * group ? to_[group + half] : own;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int in_half = 4 * i + lane() / 8;
        const int at = Image::in_full_box(32 * half + in_half, vector);
        const uint4 bits = *reinterpret_cast<const uint4*>(reinterpret_cast<const std::byte*>(box) + at);
        auto* const to =
            reinterpret_cast<std::byte*>(__shfl_sync(0xffffffffu, reinterpret_cast<uint64_t>(own), in_half));
        if (is_col && 32 * half + in_half < rows) {
          // Nobody reads it soon: it need not stay in the L2.
          __stcs(reinterpret_cast<uint4*>(to + (first_col + vector * Image::kVectorCols) * sizeof(Element)), bits);
        }
      }
    }
  }

  const RankView& view_;
  const L& layout_;
  Job job_;
  const int first_;              // row of the tile
  std::byte* to_[kGroups] = {};  // row i is lane i % 32's
};

}  // namespace mk::moe
