// SPDX-License-Identifier: MIT
// ops/sums/sum_body.cuh — what a warp on an SM does with images of tiles: the bodies that gemm_rs_protocol.h and
// gemm_ar_protocol.h call.
#pragma once

#include <cuda.h>

#include "core/rank_view.h"
#include "ops/sums/addends.h"
#include "ops/tile_image.h"
#include "target/sm90/box_image.h"
#include "target/sm90/sum_job.cuh"

namespace mk::sums {

MK_HD constexpr sm90::BoxImage box_image(const TileImage& image, const Tile& tile) {
  return {static_cast<int>(image.rows_of(tile).count), static_cast<int>(image.cols_of(tile).count)};
}

// Where results go: C as the caller has it, and as TMA sees it, in pieces of half a box.
struct ResultMatrix {
  void* data = nullptr;
  const CUtensorMap* map = nullptr;
  Output output = Output::kShard;
};

// The whole warp calls these.
template <class Element>
class SumBody {
 public:
  __device__ SumBody(const RankView& view, const TileImage& image, const ResultMatrix& c,
                     const sm90::BulkPieces& pieces)
      : view_(view), image_(image), c_(c), job_(pieces) {}

  __device__ void sum(const Tile& tile, const Addends& addends, const Place& to) {
    std::byte* const out = resolve(to);
    job_.run(addends.number, bytes_of(tile), images(addends),
             [&](std::byte* piece, uint32_t first, uint32_t bytes) { send(out + first, piece, bytes); });
  }

  __device__ void finish(const Tile& tile, const NodeSums& sums) {
    make_result(tile, sums, [](std::byte*, uint32_t, uint32_t) {});
  }
  __device__ void finish_to(const Tile& tile, const NodeSums& sums, const Place& to) {
    std::byte* const out = resolve(to);
    make_result(tile, sums, [&](std::byte* piece, uint32_t first, uint32_t bytes) { send(out + first, piece, bytes); });
  }

  __device__ void take(const Tile& tile, const Place& from) {
    make_result(tile, {.own = {from, 0, 1}, .others = {}}, [](std::byte*, uint32_t, uint32_t) {});
  }

 private:
  __device__ std::byte* resolve(const Place& place) const { return view_.windows.resolve(view_.world, place); }
  __device__ uint32_t bytes_of(const Tile& tile) const { return static_cast<uint32_t>(image_.tile_bytes(tile).count); }

  // Where images lie: looked up once a tile, not once a piece.
  struct Row {
    const std::byte* first = nullptr;
    uint64_t stride = 0;
    __device__ const std::byte* operator()(int i) const { return first + i * stride; }
  };
  __device__ Row images(const Addends& addends) const {
    return {addends.number > 0 ? resolve(addends.first) : nullptr, addends.stride};
  }

  __device__ static void send(std::byte* to, const std::byte* piece, uint32_t bytes) {
    if (sm90::is_one_lane())
      sm90::ptx::cp_async_bulk(sm90::ptx::space_global, sm90::ptx::space_shared, to, piece, bytes);
  }

  // The sum into C; also(piece, first, bytes) sees its pieces too.
  template <class Also>
  __device__ void make_result(const Tile& tile, const NodeSums& sums, Also&& also) {
    const Row own = images(sums.own);
    const Row others = images(sums.others);
    const auto image_at = [&](int i) { return sums.pick(i, own, others); };
    const sm90::BoxImage boxes = box_image(image_, tile);
    job_.run(sums.count(), bytes_of(tile), image_at, [&](std::byte* piece, uint32_t first, uint32_t bytes) {
      also(piece, first, bytes);
      if (boxes.is_whole()) {
        write_half_box(tile, boxes, piece, first);
      } else {
        write_vectors(tile, boxes, piece, first, bytes);
      }
    });
  }

  __device__ void write_half_box(const Tile& tile, const sm90::BoxImage& boxes, const std::byte* piece,
                                 uint32_t first) const {
    if (!sm90::is_one_lane()) return;
    const sm90::BoxImage::Element at = boxes.piece_at(static_cast<int>(first));
    const int32_t to[3] = {static_cast<int32_t>(image_.cols_of(tile).first) + at.col,
                           static_cast<int32_t>(image_.rows_of(tile).first) + at.row,
                           c_.output == Output::kAll ? tile.source : 0};
    sm90::ptx::cp_async_bulk_tensor(sm90::ptx::space_global, sm90::ptx::space_shared, c_.map, to, piece);
  }

  __device__ void write_vectors(const Tile& tile, const sm90::BoxImage& boxes, const std::byte* piece, uint32_t first,
                                uint32_t bytes) const {
    constexpr int kVector = sm90::BoxImage::kVectorBytes;
    const int64_t shard = c_.output == Output::kAll ? tile.source * image_.rows : 0;
    Element* const c = static_cast<Element*>(c_.data) + (shard + image_.rows_of(tile).first) * image_.cols +
                       image_.cols_of(tile).first;
    for (uint32_t at = threadIdx.x % 32 * kVector; at < bytes; at += 32 * kVector) {
      const sm90::BoxImage::Element element = boxes.element_of(static_cast<int>((first + at) / kVector));
      *reinterpret_cast<uint4*>(c + element.row * image_.cols + element.col) =
          *reinterpret_cast<const uint4*>(piece + at);
    }
  }

  const RankView& view_;
  const TileImage& image_;
  const ResultMatrix c_;
  sm90::SumJob<Element> job_;
};

}  // namespace mk::sums
