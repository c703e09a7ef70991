// SPDX-License-Identifier: MIT
// ops/dense/sum_body.cuh — what a block does with images of tiles; the bodies of gemm_rs_protocol.h on an SM.
#pragma once

#include "core/rank_view.h"
#include "ops/dense/addends.h"
#include "ops/dense/tile_image.h"
#include "target/sm90/box_image.h"
#include "target/sm90/sum_job.cuh"

namespace mk::dense {

MK_HD constexpr sm90::BoxImage box_image(const TileImage& image, const Tile& tile) {
  return {static_cast<int>(image.rows_of(tile).count), static_cast<int>(image.cols_of(tile).count)};
}

// Every thread of the block calls these.
template <class Element>
class SumBody {
 public:
  __device__ SumBody(const RankView& view, const TileImage& image, Output output, void* c)
      : view_(view), image_(image), output_(output), c_(static_cast<Element*>(c)) {}

  __device__ void sum(const Tile& tile, const Addends& addends, const Place& to) {
    const sm90::ImageRow images = resolve(addends);
    auto* out = reinterpret_cast<uint4*>(resolve(to));
    sm90::sum_tile<Element>(
        box_image(image_, tile).chunks(), [&](sm90::Handful<Element>& sums) { sums.add(images); },
        [&](int chunk, const uint4& bits) { out[chunk] = bits; });
  }

  __device__ void finish(const Tile& tile, const NodeSums& sums) {
    make_result(tile, sums, [](int, const uint4&) {});
  }
  __device__ void finish_to(const Tile& tile, const NodeSums& sums, const Place& to) {
    auto* out = reinterpret_cast<uint4*>(resolve(to));
    make_result(tile, sums, [&](int chunk, const uint4& bits) { out[chunk] = bits; });
  }

  __device__ void take(const Tile& tile, const Place& from) {
    const std::byte* image = resolve(from);
    Element* c = first_of(tile);
    const sm90::BoxImage boxes = box_image(image_, tile);
    // One addend: rounding the sum gives its bits back.
    sm90::sum_tile<Element>(
        boxes.chunks(), [&](sm90::Handful<Element>& sums) { sums.add(image); },
        [&](int chunk, const uint4& bits) { write(c, boxes, chunk, bits); });
  }

 private:
  __device__ std::byte* resolve(const Place& place) const { return view_.windows.resolve(view_.world, place); }
  __device__ sm90::ImageRow resolve(const Addends& addends) const {
    return {addends.count > 0 ? resolve(addends.first) : nullptr, addends.stride, addends.count};
  }

  __device__ Element* first_of(const Tile& tile) const {
    const int64_t row = (output_ == Output::kAll ? tile.source * image_.rows : 0) + image_.rows_of(tile).first;
    return c_ + row * image_.cols + image_.cols_of(tile).first;
  }

  __device__ void write(Element* c, const sm90::BoxImage& boxes, int chunk, const uint4& bits) const {
    const sm90::BoxImage::Element at = boxes.element_of(chunk);
    *reinterpret_cast<uint4*>(c + at.row * image_.cols + at.col) = bits;
  }

  template <class Also>
  __device__ void make_result(const Tile& tile, const NodeSums& sums, Also&& also) {
    const sm90::ImageRow own = resolve(sums.own);
    const sm90::ImageRow others = resolve(sums.others);
    Element* c = first_of(tile);
    const sm90::BoxImage boxes = box_image(image_, tile);
    const auto write_both = [&](int chunk, const uint4& bits) {
      also(chunk, bits);
      write(c, boxes, chunk, bits);
    };
    if (others.count == 0) {
      sm90::sum_tile<Element>(
          boxes.chunks(), [&](sm90::Handful<Element>& all) { all.add(own); }, write_both);
      return;
    }
    sm90::sum_tile<Element>(
        boxes.chunks(),
        [&](sm90::Handful<Element>& all) {
          sm90::Handful<Element> own_sums = all;
          sm90::add_nodes(all, own_sums, own, others, sums.position);
        },
        write_both);
  }

  const RankView& view_;
  const TileImage& image_;
  const Output output_;
  Element* c_;
};

}  // namespace mk::dense
