// SPDX-License-Identifier: MIT
// bench/attention_sets.h — inputs and outputs of all ranks of attention, in sets that take turns; and their checks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/attention_case.h"
#include "runtime/device.h"
#include "tools/attention_check.h"
#include "tools/data_engine.h"

namespace mk::bench {

struct AttentionRankTensors {
  HeadTensor q;
  HeadTensor k;
  HeadTensor v;
  HeadTensor o;
  float* lse = nullptr;  // [heads, rows]
};

class AttentionSets {
 public:
  AttentionSets(const BenchCase& bench_case, runtime::Device& device);

  std::span<const AttentionRankTensors> set(int number) const { return sets_[number]; }

  // Outputs become NaN.
  void poison(int set);
  void poison(const Tensor& tensor) { engine_->poison(tensor); }

  // Judges the outputs of some rows of every rank, all heads: to judge all would take minutes.  `mkernel run` does.
  tools::CheckResult check(int set);

 private:
  tools::AttentionValues values_of(int set) const;
  tools::CheckResult check_rows(int set, int rank, int64_t first);

  BenchCase case_;
  runtime::Device& device_;
  std::unique_ptr<tools::DataEngine> engine_;
  std::unique_ptr<tools::AttentionChecker> checker_;
  std::vector<runtime::Buffer> buffers_;
  std::vector<std::vector<AttentionRankTensors>> sets_;
  runtime::Buffer few_lse_;  // of the rows that are checked
};

}  // namespace mk::bench
