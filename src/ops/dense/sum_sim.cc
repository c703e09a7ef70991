// SPDX-License-Identifier: MIT
// ops/dense/sum_sim.cc — inputs and the check of a simulated run.
#include "ops/dense/sum_sim.h"

#include <fmt/format.h>

#include <limits>

#include "target/sim/random.h"

namespace mk::dense {

SumData::SumData(const Shape& shape, int launches, uint64_t seed) : shape_(shape), launches_(launches) {
  sim::Random random(seed ^ 0x5eedda7aULL);
  b_order_ = random.one_in(2) ? BOrder::kKN : BOrder::kNK;
  const auto whole_numbers = [&](int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(static_cast<int>(random.below(17)) - 8);
    return values;
  };
  const int64_t tiles = shape.image.tiles() * (c_rows() / shape.image.rows);
  for (int i = 0; i < launches * shape.ranks; ++i) {
    a_.push_back(whole_numbers(shape.m * shape.k));
    b_.push_back(whole_numbers(shape.k * shape.image.cols));
    c_.emplace_back(c_rows() * shape.image.cols, std::numeric_limits<float>::quiet_NaN());
    visits_.emplace_back(tiles);
  }
}

GemmArgs SumData::args(int rank, uint64_t epoch) {
  const size_t at = index(rank, epoch);
  const int64_t n = shape_.image.cols;
  GemmArgs args;
  args.a = {a_[at].data(), DType::kFp32, shape_.m, shape_.k};
  args.b = b_order_ == BOrder::kKN ? Tensor{b_[at].data(), DType::kFp32, shape_.k, n}
                                   : Tensor{b_[at].data(), DType::kFp32, n, shape_.k};
  args.c = {c_[at].data(), DType::kFp32, c_rows(), n};
  args.b_order = b_order_;
  return args;
}

void SumData::count_write(int rank, uint64_t epoch, const Tile& tile) {
  const int64_t before = shape_.output == Output::kAll ? tile.source * shape_.image.tiles() : 0;
  ++visits_[index(rank, epoch)][before + shape_.image.index(tile)];
}

float SumData::exact(uint64_t epoch, int64_t row, int64_t col) const {
  float sum = 0;
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    const float* a = a_[index(rank, epoch)].data() + row * shape_.k;
    const float* b = b_[index(rank, epoch)].data();
    for (int64_t k = 0; k < shape_.k; ++k) {
      sum += a[k] * (b_order_ == BOrder::kKN ? b[k * shape_.image.cols + col] : b[col * shape_.k + k]);
    }
  }
  return sum;
}

std::string SumData::first_error() const {
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
        const float right = exact(epoch, first_row + row, col);
        if (got == right) continue;
        return fmt::format("launch {}: c[{}, {}] of rank {} is {}, not {}", epoch, row, col, rank, got, right);
      }
    }
  }
  return {};
}

}  // namespace mk::dense
