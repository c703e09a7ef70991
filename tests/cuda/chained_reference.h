// SPDX-License-Identifier: MIT
// tests/cuda/chained_reference.h — data for two products with SwiGLU between them, and what their results may be.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "target/sm90/result_boxes.h"
#include "tools/judge.h"

namespace mk::sm90 {

struct ChainedCase {
  int m;
  int inner;
  int n;
  int k;
};

// Tails of every kind; one row; fewer columns of H than a box; more blocks of k than stages, in the first product, in
// the second, and in neither.
constexpr ChainedCase kCases[] = {
    {300, 200, 264, 136}, {1, 8, 8, 8}, {129, 72, 136, 712}, {64, 584, 72, 64}, {256, 128, 256, 128}};

// A matrix on the host, in doubles that Element holds exactly.
struct Values {
  int rows = 0;
  int cols = 0;
  std::vector<double> at;

  Values(int rows, int cols, const std::function<double(int, int)>& value) : rows(rows), cols(cols) {
    at.resize(static_cast<size_t>(rows) * cols);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) at[static_cast<size_t>(r) * cols + c] = value(r, c);
    }
  }
  double operator()(int r, int c) const { return at[static_cast<size_t>(r) * cols + c]; }

  // As the GPU has it, column by column or row by row.
  template <class Element>
  std::vector<Element> laid_out(bool is_transposed) const {
    std::vector<Element> out(at.size());
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        const size_t to = is_transposed ? static_cast<size_t>(c) * rows + r : static_cast<size_t>(r) * cols + c;
        out[to] = static_cast<Element>(static_cast<float>((*this)(r, c)));
      }
    }
    return out;
  }
};

struct ChainedData {
  Values a;
  Values gate;  // k × inner
  Values up;
  Values b2;  // inner × n

  // The weights of gate and up in turns: what a caller prepares once.
  Values b1() const {
    return Values(gate.rows, 2 * gate.cols, [&](int k, int col) {
      const int j = static_cast<int>(GatedColumns::result(col));
      return GatedColumns::is_up(col) ? up(k, j) : gate(k, j);
    });
  }
};

// Rows of A are two ones, gates are 0 or 32.  silu of 0, 32 and 64 in fp32 is 0, 32 and 64, so H is integers of at most
// 128 that both types hold, and sums of C are exact as well: C is its sum, rounded once.
inline ChainedData exact_data(const ChainedCase& at) {
  std::mt19937 random(7);
  const auto pick = [&](int least, int most) { return least + static_cast<int>(random() % (most - least + 1)); };
  return {Values(at.m, at.k, [&](int r, int k) { return k == r % at.k             ? 1
                                                        : k == (r * 7 + 3) % at.k ? 1
                                                                                  : 0; }),
          Values(at.k, at.inner, [&](int, int) { return 32 * pick(0, 1); }),
          Values(at.k, at.inner, [&](int, int) { return pick(-1, 1); }),
          Values(at.inner, at.n, [&](int, int) { return pick(-1, 1); })};
}

// Of magnitudes that make gates of a few units; eight bits of a significand are enough for both types.
inline ChainedData uniform_data(const ChainedCase& at) {
  std::mt19937 random(11);
  const auto uniform = [&](double most) { return (static_cast<int>(random() % 255) - 127) / 128.0 * most; };
  return {Values(at.m, at.k, [&](int, int) { return uniform(1); }),
          Values(at.k, at.inner, [&](int, int) { return uniform(0.5); }),
          Values(at.k, at.inner, [&](int, int) { return uniform(0.5); }),
          Values(at.inner, at.n, [&](int, int) { return uniform(0.25); })};
}

// A value that is known up to `off`.
struct Judged {
  double value = 0;
  double off = 0;
};

// A sum of k products of x, known up to its off, and y, as the tensor cores and a rounding leave it (tools/judge.h).
struct Product {
  double sum = 0;
  double magnitudes = 0;
  double off = 0;
  int count = 0;

  void add(const Judged& x, double y) {
    sum += x.value * y;
    magnitudes += (std::abs(x.value) + x.off) * std::abs(y);
    off += x.off * std::abs(y);
    ++count;
  }
  Judged judged() const { return {sum, off + count * 0x1p-23 * magnitudes}; }
};

inline Judged rounded(const Judged& x, const tools::Rounding& rounding) {
  return {x.value, x.off + rounding.unit * (std::abs(x.value) + x.off) + rounding.tiny};
}

// silu is nowhere steeper than 1.1.  Of the exponential an error of 2^-20 + |x| · 2^-21 of itself is allowed, twice
// what CUDA says of __expf; that of the quotient is no more, and the sum, the division and the product add 2^-24 each.
inline Judged swiglu(const Judged& gate, const Judged& up) {
  const double silu = gate.value / (1 + std::exp(-gate.value));
  const double moved = 1.1 * gate.off;
  const double off = moved + (std::abs(silu) + moved) * (0x1p-20 + (std::abs(gate.value) + gate.off) * 0x1p-21);
  const double most = (std::abs(silu) + off) * (std::abs(up.value) + up.off) * (1 + 0x1p-24);
  return {silu * up.value, most - std::abs(silu * up.value)};
}

}  // namespace mk::sm90
