// SPDX-License-Identifier: MIT
// tests/support/moe_backward_data.h — inputs of the backward pass of a layer of experts, and what is right, in double.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/moe_layer_data.h"

namespace mk::test {

// What a rank gets.
struct MoeGradients {
  std::vector<float> dx;      // [tokens][hidden]
  std::vector<float> scores;  // [tokens][topk]
  std::vector<float> dw13;    // as w13
  std::vector<float> dw2;     // as w2

  // All of a rank's, each element `value`.
  static MoeGradients filled(const MoeLayerData& data, int rank, float value);
  bool is_all(float value) const;
};

class MoeBackwardData {
 public:
  MoeBackwardData(const moe::LayerProblem& problem, Routing routing, uint64_t seed);
  explicit MoeBackwardData(MoeLayerData layer, uint64_t seed = 1);

  const MoeLayerData& layer() const { return layer_; }
  MoeLayerData& layer() { return layer_; }
  std::vector<float>& dout(int rank) { return dout_[rank]; }
  const std::vector<float>& dout(int rank) const { return dout_[rank]; }
  const std::vector<float>& kept(int rank) const { return kept_[rank]; }  // [max_rows][2][inter]; NaN behind the rows

  // `tolerance` is a part of what the magnitudes of all terms add up to.
  testing::AssertionResult is_right(int rank, const MoeGradients& seen, double tolerance = 1e-5) const;

 private:
  struct Sums {
    std::vector<double> right, magnitude;
    explicit Sums(size_t size) : right(size), magnitude(size) {}
    void add(size_t at, double value, double bound) {
      right[at] += value;
      magnitude[at] += bound;
    }
    testing::AssertionResult matches(const std::string& name, const std::vector<float>& seen, double tolerance) const;
  };
  struct All {
    Sums dx, scores, dw13, dw2;
  };
  struct ExpertView;
  void add_row(const ExpertView& expert, const MoeRow& row, const float* kept, int rank, All& all) const;

  MoeLayerData layer_;
  std::vector<std::vector<float>> dout_, kept_;
};

}  // namespace mk::test
