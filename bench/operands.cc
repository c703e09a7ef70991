// SPDX-License-Identifier: MIT
// bench/operands.cc — see operands.h.
#include "bench/operands.h"

namespace mk::bench {
namespace {

enum : uint64_t { kTensorA, kTensorB };

constexpr uint64_t kSeed = 1;

}  // namespace

Operands::Operands(const BenchCase& bench_case, runtime::Device& device, int num_sets)
    : case_(bench_case), engine_(tools::make_data_engine(device)) {
  const bool gathers = case_.op == OpKind::kAgGemm;
  const bool scatters = case_.op == OpKind::kGemmRs;
  const auto make = [&](int64_t rows, int64_t cols) {
    return tensors_.emplace_back(device, case_.dtype, rows, cols).view;
  };
  for (int set = 0; set < num_sets; ++set) {
    std::vector<RankTensors>& ranks = sets_.emplace_back();
    for (int rank = 0; rank < case_.world.size(); ++rank) {
      const RankTensors own{make(gathers ? case_.shard_rows() : case_.m, case_.k), make(case_.k, case_.n),
                            make(scatters ? case_.shard_rows() : case_.m, case_.n)};
      remake_a(set, rank, own.a);
      remake_b(set, rank, own.b);
      ranks.push_back(own);
    }
  }
}

void Operands::poison(int set) {
  for (const RankTensors& own : sets_[set]) engine_->poison(own.c);
}

void Operands::remake_a(int set, int rank, const Tensor& into) { engine_->fill(into, spec_of(set, kTensorA, rank)); }

void Operands::remake_b(int set, int rank, const Tensor& into) { engine_->fill(into, spec_of(set, kTensorB, rank)); }

tools::DataKind Operands::kind() const { return spec_of(0, kTensorA, 0).kind; }

// Even launches have evenly spread data where a bound can judge them: what a GPU draws, and so its clock,
// depends on the data.
tools::DataSpec Operands::spec_of(int set, uint64_t tensor, int rank) const {
  tools::DataSpec spec = tools::data_for(case_.k, kSeed, 2 * static_cast<uint64_t>(set));
  spec.tensor = tensor;
  spec.rank = static_cast<uint64_t>(rank);
  return spec;
}

}  // namespace mk::bench
