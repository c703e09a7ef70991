// SPDX-License-Identifier: MIT
// tools/layer_reference.h — what a layer of experts must give for some tokens, in fp64, where the data lies.
//
// Rows are added expert by expert, so that the weights of one expert are all that must be in memory.  Every call has
// finished when it returns.
#pragma once

#include <memory>
#include <vector>

#include "layer_judge.h"
#include "mkernel/types.h"
#include "runtime/device.h"

namespace mk::tools {

// Some rows of one expert.
struct ExpertRows {
  Tensor x;                     // [rows, hidden]
  Tensor gate;                  // [inter, hidden]
  Tensor up;                    // [inter, hidden]
  Tensor w2;                    // [hidden, inter]
  std::vector<int64_t> tokens;  // of each row: where it is added; a token may be there several times
  std::vector<float> weights;   // of each row
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
  virtual ~LayerReference() = default;

  // Tokens 0 to tokens - 1 have no rows any more.
  virtual void clear(int64_t tokens) = 0;
  virtual void add(const ExpertRows& rows, const LayerRule& rule) = 0;

  // Judges every element of out, whose row i is token i.
  virtual CheckResult check(const Tensor& out, const LayerRule& rule) = 0;
};

std::unique_ptr<LayerReference> make_cpu_layer_reference(const LayerSize& size);

// Only where a CUDA Device exists.
std::unique_ptr<LayerReference> make_cuda_layer_reference(runtime::Device& device, const LayerSize& size);

inline std::unique_ptr<LayerReference> make_layer_reference(runtime::Device& device, const LayerSize& size) {
  return device.kind() == DeviceKind::kCuda ? make_cuda_layer_reference(device, size) : make_cpu_layer_reference(size);
}

}  // namespace mk::tools
