// SPDX-License-Identifier: MIT
// ops/gemm/gemm_host_body.h — tile maths of GEMM operators as plain loops.
//
// CPU threads and simulated workers with data use it; they differ in how a Place becomes a pointer.
// Inside an image a tile lies row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/half.h"
#include "ops/gemm/gemm_operands.h"
#include "ops/sums/addends.h"
#include "ops/sums/host_sums.h"
#include "ops/tile_image.h"
#include "target/cpu/cpu_gemm.h"

namespace mk::gemm {

// Resolve: Place → std::byte*.
template <class T, class Layout, class Resolve>
class HostBody {
 public:
  HostBody(const Layout& layout, int rank, const GemmOperands& operands, Resolve resolve)
      : layout_(layout), image_(layout.image()), rank_(rank), operands_(operands), resolve_(std::move(resolve)) {}

  void load(const Tile& tile) { rows_ = at(layout_.rows_place(rank_, tile)); }
  void multiply(const Tile& tile) { multiply(tile, rows_); }

  // The same with a tile's rows of A in another place.
  void multiply(const Tile& tile, const T* rows_of_a) {
    const Range rows = image_.rows_of(tile);
    const Range cols = image_.cols_of(tile);
    const auto b = cpu::right_operand<T>(operands_.b.data, operands_.b_order, image_.cols, layout_.k, cols.first);
    const T* const bias = operands_.bias == nullptr ? nullptr : static_cast<const T*>(operands_.bias) + cols.first;
    product_.resize(rows.count * cols.count);
    cpu::gemm_tile(rows_of_a, b, product_.data(), rows.count, cols.count, layout_.k, cols.count,
                   cpu::Bias<T>{bias, operands_.activation});
  }

  void hand_over() { leaving_.swap(product_); }
  void store(const Tile&, const Place& to) { std::memcpy(resolve_(to), leaving_.data(), leaving_.size() * sizeof(T)); }
  void write(const Tile& tile) { write_c(tile, leaving_.data()); }

  void sum(const Tile& tile, const sums::Addends& addends, const Place& to) {
    add_up(tile, addends);
    store(tile, to);
  }

  void finish(const Tile& tile, const sums::NodeSums& all) {
    add_up(tile, all);
    write(tile);
  }

  // The same, and the result into the image at `to` as well.
  void finish_to(const Tile& tile, const sums::NodeSums& all, const Place& to) {
    finish(tile, all);
    store(tile, to);
  }

  const Resolve& resolve() const { return resolve_; }

  // A result that somebody else made.
  void take(const Tile& tile, const Place& from) { write_c(tile, at(from)); }

 private:
  T* at(const Place& place) { return reinterpret_cast<T*>(resolve_(place)); }

  // Of Addends or NodeSums.
  template <class Images>
  void add_up(const Tile& tile, const Images& images) {
    leaving_.resize(image_.rows_of(tile).count * image_.cols_of(tile).count);
    sums::add_up(
        images, [this](const Place& place) { return at(place); }, std::span<T>(leaving_));
  }

  void write_c(const Tile& tile, const T* from) {
    const Range rows = image_.rows_of(tile);
    const Range cols = image_.cols_of(tile);
    const int64_t first = (Layout::kOutput == Output::kAll ? tile.source * image_.rows : 0) + rows.first;
    T* c = static_cast<T*>(operands_.c.data) + first * image_.cols + cols.first;
    for (int64_t row = 0; row < rows.count; ++row) {
      std::memcpy(c + row * image_.cols, from + row * cols.count, cols.count * sizeof(T));
    }
  }

  const Layout& layout_;
  const TileImage image_;
  const int rank_;
  const GemmOperands operands_;
  Resolve resolve_;
  const T* rows_ = nullptr;
  std::vector<T> product_;  // what multiply made
  std::vector<T> leaving_;  // what is stored or written: a product or a sum
};

}  // namespace mk::gemm
