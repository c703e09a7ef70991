// SPDX-License-Identifier: MIT
// tools/layer_reference.h — what a layer of experts must give for some tokens, in fp64, where the data lies.
//
// Rows are added expert by expert, so that the weights of one expert are all that must be in memory.  Every call has
// finished when it returns.
#pragma once

#include <memory>
#include <vector>

#include "bounded_math.h"

namespace mk::tools {

// Some rows of one expert.
struct ExpertRows {
  Tensor x;                     // [rows, hidden]
  Tensor gate;                  // [inter, hidden]
  Tensor up;                    // [inter, hidden]
  Tensor w2;                    // [hidden, inter]
  std::vector<Target> targets;  // of each row: its token and its weight; a token may be there several times
};

// At most.
struct LayerSize {
  int64_t tokens = 0;
  int64_t rows = 0;  // of an ExpertRows
  int64_t hidden = 0;
  int64_t inter = 0;

  // What a reference takes.
  double bytes() const {
    const double widths = 2.0 * static_cast<double>(hidden) + 3.0 * static_cast<double>(inter);
    return static_cast<double>(rows) * widths * sizeof(Bounded) +
           static_cast<double>(tokens) * static_cast<double>(hidden) * sizeof(SlotSum) +
           static_cast<double>(hidden) * static_cast<double>(inter) * sizeof(float);
  }
};

class LayerReference {
 public:
  LayerReference(runtime::Device& device, const LayerSize& size);

  // Tokens 0 to tokens - 1 have no rows any more.
  void clear(int64_t tokens);
  void add(const ExpertRows& rows, const LayerRule& rule);

  // Judges every element of out, whose row i is token i.
  CheckResult check(const Tensor& out, const LayerRule& rule);

 private:
  const std::unique_ptr<BoundedMath> math_;
  const int64_t hidden_;
  const runtime::Buffer x_, gate_, up_, activations_, results_;
  const runtime::Buffer sums_;
};

}  // namespace mk::tools
