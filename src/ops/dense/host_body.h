// SPDX-License-Identifier: MIT
// ops/dense/host_body.h — tile maths of the operators that sum products over ranks, as plain loops.
//
// CPU threads and simulated workers with data use it; they differ in how a Place becomes a pointer.
// Inside an image a tile lies row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/half.h"
#include "mkernel/gemm_args.h"
#include "ops/dense/addends.h"
#include "ops/dense/tile_image.h"
#include "target/cpu/cpu_gemm.h"

namespace mk::dense {

// Resolve: Place → std::byte*.
template <class T, class Resolve>
class HostBody {
 public:
  HostBody(const TileImage& image, int64_t k, const GemmArgs& args, Output output, Resolve resolve)
      : image_(image), k_(k), args_(args), output_(output), resolve_(std::move(resolve)) {}

  void multiply(const Tile& tile) {
    const Range rows = image_.rows_of(tile);
    const Range cols = image_.cols_of(tile);
    const T* a = static_cast<const T*>(args_.a.data) + (tile.source * image_.rows + rows.first) * k_;
    const auto b = cpu::right_operand<T>(args_.b.data, args_.b_order, image_.cols, k_, cols.first);
    product_.resize(rows.count * cols.count);
    cpu::gemm_tile(a, b, product_.data(), rows.count, cols.count, k_, cols.count);
  }

  void store(const Tile&, const Place& to) { std::memcpy(resolve_(to), product_.data(), product_.size() * sizeof(T)); }
  void write(const Tile& tile) { write_c(tile, product_.data()); }

  void sum(const Tile& tile, const Addends& addends, const Place& to) {
    add_up(tile, addends);
    store(tile, to);
  }

  void finish(const Tile& tile, const NodeSums& sums) {
    add_up(tile, sums);
    write_c(tile, product_.data());
  }

  // The same, and the result into the image at `to` as well.
  void finish_to(const Tile& tile, const NodeSums& sums, const Place& to) {
    finish(tile, sums);
    store(tile, to);
  }

  // A result that somebody else made.
  void take(const Tile& tile, const Place& from) { write_c(tile, at(from)); }

 private:
  T* at(const Place& place) { return reinterpret_cast<T*>(resolve_(place)); }

  // Of Addends or NodeSums, in their order.
  template <class Images>
  void add_up(const Tile& tile, const Images& images) {
    std::vector<float> sums(image_.rows_of(tile).count * image_.cols_of(tile).count, 0.0f);
    for (int i = 0; i < images.count(); ++i) {
      const T* image = at(images.at(i));
      for (size_t j = 0; j < sums.size(); ++j) sums[j] += to_float(image[j]);
    }
    product_.resize(sums.size());
    for (size_t j = 0; j < sums.size(); ++j) product_[j] = from_float<T>(sums[j]);
  }

  void write_c(const Tile& tile, const T* from) {
    const Range rows = image_.rows_of(tile);
    const Range cols = image_.cols_of(tile);
    const int64_t first = (output_ == Output::kAll ? tile.source * image_.rows : 0) + rows.first;
    T* c = static_cast<T*>(args_.c.data) + first * image_.cols + cols.first;
    for (int64_t row = 0; row < rows.count; ++row) {
      std::memcpy(c + row * image_.cols, from + row * cols.count, cols.count * sizeof(T));
    }
  }

  const TileImage image_;
  const int64_t k_;
  const GemmArgs args_;
  const Output output_;
  Resolve resolve_;
  std::vector<T> product_;  // what multiply or add_up made
};

}  // namespace mk::dense
