// SPDX-License-Identifier: MIT
// tools/data_engine.h — fills inputs, poisons outputs and checks results where the data lies.
//
// Every call has finished when it returns.  Tensors lie in memory of the engine's Device.
#pragma once

#include <memory>
#include <vector>

#include "data.h"
#include "judge.h"
#include "mkernel/types.h"
#include "runtime/device.h"

namespace mk::tools {

// c [m,n] against the sum over parts of a_p [m,k] · b_p [k,n].
struct SumCheck {
  Tensor a;  // the parts one under the other: [parts · rows, k]
  Tensor b;  // the parts one under the other: [parts · k, n]
  Tensor c;
  int parts = 1;
  int64_t first_row = 0;  // of c, in each part of a
  Hops hops = {};
};

// A row of the tensor of another rank.
struct RowSource {
  int rank = 0;
  int64_t row = 0;
};

class DataEngine {
 public:
  virtual ~DataEngine() = default;

  // Element i becomes value_at(spec, key_of(spec), i), rounded to the tensor's type.
  virtual void fill(const Tensor& tensor, const DataSpec& spec) = 0;

  // Row i becomes that of sources[i] in the tensor of its rank, which has as many columns; spec.rank is not used.
  virtual void fill_rows(const Tensor& tensor, const DataSpec& spec, const std::vector<RowSource>& sources) = 0;

  // Every byte becomes 0xFF: NaN in every type.
  virtual void poison(const Tensor& tensor) = 0;

  // Judges every element of c; see judge.h.
  virtual CheckResult check_sum(const SumCheck& check, DataKind kind) = 0;

  // The same for c [m,n] against a [m,k] · b [k,n].
  CheckResult check_gemm(const Tensor& a, const Tensor& b, const Tensor& c, DataKind kind) {
    return check_sum({a, b, c}, kind);
  }

  // Elements of two tensors of one shape and type whose bits differ.
  virtual int64_t count_different(const Tensor& a, const Tensor& b) = 0;
};

std::unique_ptr<DataEngine> make_cpu_data_engine();

// Only where a CUDA Device exists.
std::unique_ptr<DataEngine> make_cuda_data_engine(runtime::Device& device);

inline std::unique_ptr<DataEngine> make_data_engine(runtime::Device& device) {
  return device.kind() == DeviceKind::kCuda ? make_cuda_data_engine(device) : make_cpu_data_engine();
}

}  // namespace mk::tools
