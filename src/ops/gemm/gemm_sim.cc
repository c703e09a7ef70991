// SPDX-License-Identifier: MIT
// ops/gemm/gemm_sim.cc — inputs and the check of a simulated run.
#include "ops/gemm/gemm_sim.h"

#include <fmt/format.h>

#include <limits>

#include "target/sim/random.h"

namespace mk::gemm {

GemmData::GemmData(const Shape& shape, int launches, uint64_t seed) : shape_(shape), launches_(launches) {
  sim::Random random(seed ^ 0x5eedda7aULL);
  b_order_ = random.one_in(2) ? BOrder::kKN : BOrder::kNK;
  const auto whole_numbers = [&](int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(static_cast<int>(random.below(17)) - 8);
    return values;
  };
  const int64_t tiles = shape.image.tiles() * (c_rows() / shape.image.rows);
  for (int i = 0; i < launches * shape.ranks; ++i) {
    a_.push_back(whole_numbers(shape.a_rows * shape.k));
    b_.push_back(whole_numbers(shape.k * shape.image.cols));
    c_.emplace_back(c_rows() * shape.image.cols, std::numeric_limits<float>::quiet_NaN());
    visits_.emplace_back(tiles);
  }
}

GemmOperands GemmData::operands(int rank, uint64_t epoch) {
  const size_t at = index(rank, epoch);
  return {.a = {}, .b = {b_[at].data()}, .c = {c_[at].data()}, .b_order = b_order_};
}

void GemmData::count_write(int rank, uint64_t epoch, const Tile& tile) {
  const int64_t before = shape_.output == Output::kAll ? tile.source * shape_.image.tiles() : 0;
  ++visits_[index(rank, epoch)][before + shape_.image.index(tile)];
}

float GemmData::product(const std::vector<float>& a, const std::vector<float>& b, int64_t row, int64_t col) const {
  float sum = 0;
  for (int64_t k = 0; k < shape_.k; ++k) {
    sum += a[row * shape_.k + k] * (b_order_ == BOrder::kKN ? b[k * shape_.image.cols + col] : b[col * shape_.k + k]);
  }
  return sum;
}

float GemmData::exact(int rank, uint64_t epoch, int64_t row, int64_t col) const {
  if (shape_.result == Result::kOfOneRank) {
    const int source = static_cast<int>(row / shape_.a_rows);
    return product(a_[index(source, epoch)], b_[index(rank, epoch)], row % shape_.a_rows, col);
  }
  float sum = 0;
  for (int from = 0; from < shape_.ranks; ++from) {
    sum += product(a_[index(from, epoch)], b_[index(from, epoch)], row, col);
  }
  return sum;
}

std::string GemmData::first_error() const {
  for (int i = 0; i < launches_ * shape_.ranks; ++i) {
    const int epoch = i / shape_.ranks + 1;
    const int rank = i % shape_.ranks;
    for (size_t tile = 0; tile < visits_[i].size(); ++tile) {
      if (visits_[i][tile] == 1) continue;
      return fmt::format("launch {}: rank {} wrote tile {} of C {} times", epoch, rank, tile, visits_[i][tile]);
    }
    const int64_t first_row = shape_.output == Output::kAll ? 0 : rank * shape_.image.rows;
    for (int64_t row = 0; row < c_rows(); ++row) {
      for (int64_t col = 0; col < shape_.image.cols; ++col) {
        const float got = c_[i][row * shape_.image.cols + col];
        const float right = exact(rank, epoch, first_row + row, col);
        if (got == right) continue;
        return fmt::format("launch {}: c[{}, {}] of rank {} is {}, not {}", epoch, row, col, rank, got, right);
      }
    }
  }
  return {};
}

}  // namespace mk::gemm
