// SPDX-License-Identifier: MIT
// tools/layer_checker.cc — see layer_checker.h.
#include "layer_checker.h"

#include <algorithm>

namespace mk::tools {

LayerChecker::LayerChecker(const CheckedLayer& layer, runtime::Device& device, DataEngine& engine)
    : layer_(layer),
      engine_(engine),
      size_(size_of_check(layer)),
      reference_(device, size_),
      x_(device, layer.dtype, size_.rows, layer.hidden),
      gate_(device, layer.dtype, layer.inter, layer.hidden),
      up_(device, layer.dtype, layer.inter, layer.hidden),
      w2_(device, layer.dtype, layer.hidden, layer.inter) {}

LayerSize LayerChecker::size_of_check(const CheckedLayer& layer) {
  constexpr int64_t kMostAtOnce = 4096;
  const int64_t tokens = std::clamp<int64_t>(layer.tokens, 1, kMostAtOnce);
  return {tokens, std::min(tokens * layer.topk, kMostAtOnce), layer.hidden, layer.inter};
}

double LayerChecker::bytes(const CheckedLayer& layer) {
  const LayerSize size = size_of_check(layer);
  const double elements = static_cast<double>(size.rows + 3 * layer.inter) * static_cast<double>(layer.hidden);
  return size.bytes() + elements * static_cast<double>(size_of(layer.dtype));
}

CheckResult LayerChecker::check(const LayerData& data, const MoePairs& pairs, int rank, const Tensor& out,
                                const Rounding& gates) {
  const std::vector<float> weights = weights_of(data.weights, rank, pairs.ids(rank).size());
  const LayerRule rule{data.x.kind,
                       data.first_products,
                       data.second_products,
                       rounding_of(layer_.dtype),
                       layer_hops(layer_.dtype, layer_.topk, layer_.nodes),
                       bound_of(layer_.clamp),
                       gates};
  CheckResult worst;
  for (int64_t first = 0; first < pairs.tokens(rank); first += size_.tokens) {
    const int64_t count = std::min(size_.tokens, pairs.tokens(rank) - first);
    reference_.clear(count);
    add_tokens(data, rule, pairs.ids(rank), weights, rank, first, count);
    worst.add(reference_.check(rows_of(out, first, count), rule));
  }
  return worst;
}

void LayerChecker::add_tokens(const LayerData& data, const LayerRule& rule, const std::vector<int64_t>& ids,
                              const std::vector<float>& weights, int rank, int64_t first, int64_t count) {
  std::vector<std::vector<int64_t>> by_expert(layer_.experts);
  for (int64_t pair = first * layer_.topk; pair < (first + count) * layer_.topk; ++pair) {
    if (ids[pair] >= 0) by_expert[ids[pair]].push_back(pair);
  }
  for (int expert = 0; expert < layer_.experts; ++expert) {
    const std::vector<int64_t>& own = by_expert[expert];
    if (own.empty()) continue;
    engine_.fill(gate_.view, of(data.gate, expert));
    engine_.fill(up_.view, of(data.up, expert));
    engine_.fill(w2_.view, of(data.w2, expert));
    for (int64_t begin = 0; begin < std::ssize(own); begin += size_.rows) {
      const int64_t rows = std::min(size_.rows, std::ssize(own) - begin);
      ExpertRows some{x_.rows(0, rows), gate_.view, up_.view, w2_.view, {}};
      std::vector<RowSource> sources;
      for (int64_t i = begin; i < begin + rows; ++i) {
        sources.push_back({rank, own[i] / layer_.topk});
        some.targets.push_back({own[i] / layer_.topk - first, weights[own[i]]});
      }
      engine_.fill_rows(some.x, data.x, sources);
      reference_.add(some, rule);
    }
  }
}

}  // namespace mk::tools
