// SPDX-License-Identifier: MIT
// tools/layer_backward_checker.cc — see layer_backward_checker.h.
#include "layer_backward_checker.h"

#include <algorithm>

namespace mk::tools {
namespace {

LayerSize size_of_check(const Row& row) {
  constexpr int64_t kMostAtOnce = 4096;
  const int64_t tokens = std::clamp<int64_t>(row.moe->tokens, 1, kMostAtOnce);
  return {tokens, kMostAtOnce, row.k, row.n};
}

}  // namespace

BackwardData backward_data_of(const Row& row, const MoePairs& pairs, int launch) {
  return backward_data_for(row.k, row.n, row.moe->topk, pairs.most_rows(), row.dtype, row.seed, launch,
                           clamped_by(row.moe->clamp));
}

void fill_kept(DataEngine& engine, const Tensor& kept, const DataSpec& spec, std::span<const MoePair> pairs,
               int world_size) {
  if (kept.rows == 0) return;
  std::vector<RowSource> sources;
  for (const MoePair& one : pairs) {
    sources.push_back({one.rank, one.pair});
    sources.push_back({one.rank + world_size, one.pair});
  }
  engine.fill_rows({kept.data, kept.dtype, 2 * kept.rows, kept.cols / 2}, spec, sources);
}

void fill_expert(DataEngine& engine, const Tensor& w13, const Tensor& w2, const LayerData& data, int expert) {
  const int64_t inter = w13.rows / 2;
  auto* const gate = static_cast<std::byte*>(w13.data);
  engine.fill({gate, w13.dtype, inter, w13.cols}, of(data.gate, expert));
  engine.fill({gate + inter * w13.cols * size_of(w13.dtype), w13.dtype, inter, w13.cols}, of(data.up, expert));
  engine.fill(w2, of(data.w2, expert));
}

BackwardChecker::BackwardChecker(const Row& row, const WorldShape& world, runtime::Device& device, DataEngine& engine)
    : row_(row),
      world_(world),
      engine_(engine),
      size_(size_of_check(row)),
      reference_(device, size_, row.moe->topk),
      x_(device, row.dtype, size_.rows, row.k),
      dout_(device, row.dtype, size_.rows, row.k),
      kept_(device, row.dtype, size_.rows, 2 * row.n),
      w13_(device, row.dtype, 2 * row.n, row.k),
      w2_(device, row.dtype, row.k, row.n) {}

double BackwardChecker::bytes(const Row& row) {
  const LayerSize size = size_of_check(row);
  const auto hidden = static_cast<double>(row.k);
  const auto inter = static_cast<double>(row.n);
  const double elements = static_cast<double>(size.rows) * 2 * (hidden + inter) + 3 * hidden * inter;
  return LayerBackwardReference::bytes(size, row.moe->topk) + elements * static_cast<double>(size_of(row.dtype));
}

LayerRule BackwardChecker::rule_of(const BackwardData& data, int64_t second_products) const {
  return {data.x.kind,
          data.first_products,
          second_products,
          rounding_of(row_.dtype),
          layer_hops(row_.dtype, row_.moe->topk, world_.nodes),
          bound_of(row_.moe->clamp)};
}

CheckResult BackwardChecker::check(int launch, const MoePairs& pairs, int rank, const BackwardOutputs& outputs) {
  const BackwardData data = backward_data_of(row_, pairs, launch);
  CheckResult worst = check_tokens(data, pairs, rank, outputs);
  worst.add(check_experts(data, pairs, rank, outputs));
  return worst;
}

CheckResult BackwardChecker::check_tokens(const BackwardData& data, const MoePairs& pairs, int rank,
                                          const BackwardOutputs& outputs) {
  const LayerRule rule = rule_of(data, 2 * data.second_products);
  const int topk = row_.moe->topk;
  CheckResult worst;
  for (int64_t first = 0; first < pairs.tokens(rank); first += size_.tokens) {
    const int64_t count = std::min(size_.tokens, pairs.tokens(rank) - first);
    reference_.clear_tokens(count);
    for (int expert = 0; expert < row_.moe->experts; ++expert) {
      std::vector<MoePair> own;
      for (const MoePair& one : pairs.of_expert(expert)) {
        const int64_t token = one.pair / topk;
        if (one.rank == rank && token >= first && token < first + count) own.push_back(one);
      }
      if (own.empty()) continue;
      fill_expert(engine_, w13_.view, w2_.view, data, expert);
      for_some(data, own, first, [&](const BackwardRows& rows) { reference_.add_to_tokens(rows, rule); });
    }
    worst.add(reference_.check_dx(outputs.dx.rows(first, count), rule));
    worst.add(reference_.check_dtopk_weight(outputs.dtopk_weight.rows(first, count), rule.kind));
  }
  return worst;
}

CheckResult BackwardChecker::check_experts(const BackwardData& data, const MoePairs& pairs, int rank,
                                           const BackwardOutputs& outputs) {
  CheckResult worst;
  for (int i = 0; i < pairs.local_experts(); ++i) {
    const int expert = rank * pairs.local_experts() + i;
    const std::vector<MoePair>& own = pairs.of_expert(expert);
    const LayerRule rule = rule_of(data, std::ssize(own));
    reference_.clear_expert();
    fill_expert(engine_, w13_.view, w2_.view, data, expert);
    for_some(data, own, 0, [&](const BackwardRows& rows) { reference_.add_to_expert(rows, rule); });
    worst.add(reference_.check_dw13(outputs.dw13.rows(i * 2 * row_.n, 2 * row_.n), rule));
    worst.add(reference_.check_dw2(outputs.dw2.rows(i * row_.k, row_.k), rule));
  }
  return worst;
}

void BackwardChecker::for_some(const BackwardData& data, std::span<const MoePair> pairs, int64_t first_token,
                               const std::function<void(const BackwardRows&)>& use) {
  const int topk = row_.moe->topk;
  for (size_t begin = 0; begin < pairs.size(); begin += size_.rows) {
    const std::span<const MoePair> some = pairs.subspan(begin, std::min<size_t>(size_.rows, pairs.size() - begin));
    const std::ptrdiff_t count = std::ssize(some);
    BackwardRows rows{x_.rows(0, count), dout_.rows(0, count), kept_.rows(0, count), w13_.view, w2_.view, {}, {}};
    std::vector<RowSource> sources;
    for (const MoePair& one : some) {
      const DataSpec weights = of(data.weights, one.rank);
      sources.push_back({one.rank, one.pair / topk});
      rows.pairs.push_back(one.pair - first_token * topk);
      rows.weights.push_back(value_at(weights, key_of(weights), one.pair));
    }
    engine_.fill_rows(rows.x, data.x, sources);
    engine_.fill_rows(rows.dout, data.dout, sources);
    fill_kept(engine_, rows.kept, data.kept, some, world_.size());
    use(rows);
  }
}

}  // namespace mk::tools
