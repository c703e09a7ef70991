// SPDX-License-Identifier: MIT
// bench/moe_sets.cc — see moe_sets.h.
#include "bench/moe_sets.h"

#include <algorithm>

namespace mk::bench {
namespace {

enum : uint64_t { kTensorX, kTensorW };

// Even launches have evenly spread data; see operands.cc.
constexpr uint64_t launch_of(int set) { return 2 * static_cast<uint64_t>(set); }

template <class T>
runtime::Buffer uploaded(runtime::Device& device, const std::vector<T>& values) {
  runtime::Buffer buffer(device, values.size() * sizeof(T));
  device.upload(buffer.as(), values.data(), buffer.bytes());
  return buffer;
}

}  // namespace

MoeSets::MoeSets(const BenchCase& bench_case, runtime::Device& device)
    : case_(bench_case), device_(device), engine_(tools::make_data_engine(device)) {
  const auto make = [&](int64_t rows, int64_t cols) {
    return tensors_.emplace_back(device, case_.dtype, rows, cols).view;
  };
  for (int set = 0; set < kInputSets; ++set) {
    pairs_.push_back(routing_of(case_, set));
    for (int rank = 0; rank < case_.world.size(); ++rank) max_rows_ = std::max(max_rows_, pairs_[set].rows_on(rank));
  }
  const bool is_layer = case_.op == OpKind::kMoeLayer;
  for (int set = 0; set < kInputSets; ++set) {
    std::vector<MoeRankTensors>& ranks = sets_.emplace_back();
    std::vector<std::vector<float>>& weights = weights_.emplace_back();
    for (int rank = 0; rank < case_.world.size(); ++rank) {
      const std::vector<int64_t>& ids = pairs_[set].ids(rank);
      weights.push_back(tools::weights_of(layer_data(set).weights, rank, ids.size()));
      MoeRankTensors own;
      own.x = make(case_.moe.tokens, case_.k);
      own.ids = buffers_.emplace_back(uploaded(device, ids)).as<int64_t>();
      own.weights = buffers_.emplace_back(uploaded(device, weights.back())).as<float>();
      if (is_layer) {
        own.w13 = make(int64_t{local_experts()} * 2 * case_.n, case_.k);
        own.w2 = make(local_experts() * case_.k, case_.n);
        own.y = make(case_.moe.tokens, case_.k);
        engine_->fill(own.x, of(layer_data(set).x, rank));
      } else {
        own.w = make(local_experts() * case_.k, case_.n);
        own.y = make(max_rows_, case_.n);
        engine_->fill(own.x, spec_of(set, kTensorX, rank));
      }
      fill_weights(set, rank, own);
      ranks.push_back(own);
    }
  }
}

tools::DataSpec MoeSets::spec_of(int set, uint64_t tensor, int rank) const {
  tools::DataSpec spec = tools::data_for(case_.k, kMoeSeed, launch_of(set));
  spec.tensor = tensor;
  return of(spec, rank);
}

tools::LayerData MoeSets::layer_data(int set) const {
  return tools::layer_data_for(case_.k, case_.n, case_.moe.topk, case_.dtype, kMoeSeed, launch_of(set));
}

void MoeSets::fill_weights(int set, int rank, const MoeRankTensors& own) {
  if (case_.op != OpKind::kMoeLayer) return engine_->fill(own.w, spec_of(set, kTensorW, rank));
  const tools::LayerData data = layer_data(set);
  for (int i = 0; i < local_experts(); ++i) {
    const int expert = rank * local_experts() + i;
    engine_->fill(tools::rows_of(own.w13, 2 * i * case_.n, case_.n), of(data.gate, expert));
    engine_->fill(tools::rows_of(own.w13, (2 * i + 1) * case_.n, case_.n), of(data.up, expert));
    engine_->fill(tools::rows_of(own.w2, i * case_.k, case_.k), of(data.w2, expert));
  }
}

void MoeSets::poison(int set) {
  for (const MoeRankTensors& own : sets_[set]) engine_->poison(own.y);
}

// Inputs are made again, so that a launch that spoilt its inputs is found out as well.
tools::CheckResult MoeSets::check_rows(int set, const RowsOf& rows_of) {
  tools::CheckResult worst;
  const OwnedTensor w(device_, case_.dtype, local_experts() * case_.k, case_.n);
  for (int rank = 0; rank < case_.world.size(); ++rank) {
    engine_->fill(w.view, spec_of(set, kTensorW, rank));
    int64_t first = 0;
    for (int expert = 0; expert < local_experts(); ++expert) {
      const std::vector<tools::MoePair>& rows = rows_of(rank, expert);
      if (rows.empty()) continue;
      const OwnedTensor gathered(device_, case_.dtype, std::ssize(rows), case_.k);
      std::vector<tools::RowSource> sources;
      for (const tools::MoePair& one : rows) sources.push_back({one.rank, one.pair / case_.moe.topk});
      const tools::DataSpec x = spec_of(set, kTensorX, 0);
      engine_->fill_rows(gathered.view, x, sources);
      worst.add(engine_->check_gemm(gathered.view, tools::rows_of(w.view, expert * case_.k, case_.k),
                                    tools::rows_of(sets_[set][rank].y, first, std::ssize(rows)), x.kind));
      first += std::ssize(rows);
    }
  }
  return worst;
}

tools::CheckResult MoeSets::check_layer(int set, const tools::Rounding& gates) {
  tools::LayerChecker checker(
      {case_.dtype, case_.k, case_.n, case_.moe.tokens, case_.moe.experts, case_.moe.topk, case_.world.nodes}, device_,
      *engine_);
  tools::CheckResult worst;
  for (int rank = 0; rank < case_.world.size(); ++rank) {
    worst.add(checker.check(layer_data(set), pairs_[set], rank, sets_[set][rank].y, gates));
  }
  return worst;
}

}  // namespace mk::bench
