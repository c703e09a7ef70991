// SPDX-License-Identifier: MIT
// bench/attention_sets.cc — see attention_sets.h.
#include "bench/attention_sets.h"

#include <algorithm>

#include "base/cuda_api.h"

namespace mk::bench {
namespace {

constexpr int64_t kRowsChecked = 64;  // that follow each other
constexpr int kChecksOfRank = 3;      // at the beginning, in the middle, at the end

}  // namespace

AttentionSets::AttentionSets(const BenchCase& bench_case, runtime::Device& device)
    : case_(bench_case),
      device_(device),
      engine_(tools::make_data_engine(device)),
      checker_(tools::make_attention_checker(device)),
      few_lse_(device, case_.attention.heads * kRowsChecked * sizeof(float)) {
  const auto make = [&](int64_t heads) {
    void* const data = buffers_.emplace_back(device, case_.m * heads * case_.k * size_of(case_.dtype)).as();
    return HeadTensor{data, case_.dtype, 1, case_.m, heads, case_.k};
  };
  for (int set = 0; set < kInputSets; ++set) {
    std::vector<AttentionRankTensors>& ranks = sets_.emplace_back();
    for (int rank = 0; rank < case_.world.size(); ++rank) {
      const int64_t heads = case_.attention.heads;
      const int64_t kv_heads = case_.attention.kv_heads;
      AttentionRankTensors own{make(heads), make(kv_heads), make(kv_heads), make(heads)};
      own.lse = buffers_.emplace_back(device, heads * case_.m * sizeof(float)).as<float>();
      const tools::Shard shard{case_.attention.order, case_.world.size(), rank, case_.m};
      checker_->fill(own.q, tools::AttentionTensor::kQueries, values_of(set), shard, 0);
      checker_->fill(own.k, tools::AttentionTensor::kKeys, values_of(set), shard, 0);
      checker_->fill(own.v, tools::AttentionTensor::kValues, values_of(set), shard, 0);
      ranks.push_back(own);
    }
  }
}

// Even launches have evenly spread data.
tools::AttentionValues AttentionSets::values_of(int set) const {
  return tools::attention_values_for(attention_size(case_), kAttentionSeed, 2 * static_cast<uint64_t>(set));
}

void AttentionSets::poison(int set) {
  for (const AttentionRankTensors& own : sets_[set]) {
    engine_->poison({own.o.data, case_.dtype, case_.m, case_.attention.heads * case_.k});
    engine_->poison({own.lse, DType::kFp32, case_.attention.heads, case_.m});
  }
}

tools::CheckResult AttentionSets::check(int set) {
  const int64_t piece = case_.attention.order == SequenceOrder::kZigzag ? case_.m / 2 : case_.m;
  tools::CheckResult worst;
  for (int rank = 0; rank < case_.world.size(); ++rank) {
    for (int64_t piece_begins = 0; piece_begins < case_.m; piece_begins += piece) {
      const int64_t last = std::max<int64_t>(0, (piece - 1) / kRowsChecked);
      for (int i = 0; i < kChecksOfRank; ++i) {
        worst.add(check_rows(set, rank, piece_begins + last * i / (kChecksOfRank - 1) * kRowsChecked));
      }
    }
  }
  return worst;
}

// The rows are a rank's in a larger world, of which each has as few, in their order.
tools::CheckResult AttentionSets::check_rows(int set, int rank, int64_t first) {
  const AttentionRankTensors& own = sets_[set][rank];
  const tools::Shard of_rank{case_.attention.order, case_.world.size(), rank, case_.m};
  const int64_t piece = case_.attention.order == SequenceOrder::kZigzag ? case_.m / 2 : case_.m;
  const int64_t rows = std::min(kRowsChecked, piece - first % piece);
  const tools::CheckedAttention checked{values_of(set),
                                        {.rows = rows, .first = of_rank.position_of(first)},
                                        case_.attention.mask.kind,
                                        tools::scale_or_default({}, case_.k)};
  HeadTensor o = own.o;
  o.data = static_cast<std::byte*>(o.data) + first * o.heads * o.dim * size_of(o.dtype);
  o.rows = rows;
  check_cuda(cudaMemcpy2D(few_lse_.as(), rows * sizeof(float), own.lse + first, case_.m * sizeof(float),
                          rows * sizeof(float), o.heads, cudaMemcpyDefault),
             "copy logarithms of sums");
  const tools::AttentionTally tally = checker_->check(checked, o, few_lse_.as<float>());
  tools::CheckResult result = tools::CheckResult::of(tally.o);
  result.add(tools::CheckResult::of(tally.lse));
  return result;
}

}  // namespace mk::bench
