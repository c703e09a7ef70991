// SPDX-License-Identifier: MIT
// tools/attention_backward_checker.cc — see attention_backward_checker.h.
#include "attention_backward_checker.h"

#include <algorithm>

namespace mk::tools {
namespace {

int64_t rows_at_once(DeviceKind device) { return device == DeviceKind::kCuda ? 2048 : 512; }

// Whether any query of some rows sees any key of others.
bool see_any(const CheckedAttention& checked, const PlacedRows& queries, const PlacedRows& keys) {
  const auto seen = [&](int64_t row) { return checked.seen_keys(queries.position_of(row)); };
  return seen(0).first <= keys.position_of(keys.count - 1) && keys.position_of(0) < seen(queries.count - 1).end;
}

// Row i goes to the row of a token's head.
std::vector<Target> targets_of(int64_t first, int64_t count, int64_t heads, int64_t head, double weight) {
  std::vector<Target> targets;
  for (int64_t i = 0; i < count; ++i) targets.push_back({(first + i) * heads + head, weight});
  return targets;
}

}  // namespace

AttentionBackwardChecker::HeadInputs::HeadInputs(runtime::Device& device, int64_t rows, int64_t dim, DType dtype)
    : q(device, dtype, rows, dim),
      k(device, dtype, rows, dim),
      v(device, dtype, rows, dim),
      o(device, dtype, rows, dim),
      dout(device, dtype, rows, dim),
      notes(device, rows * sizeof(QueryNotes)) {}

double AttentionBackwardChecker::HeadInputs::bytes(int64_t rows, int64_t dim, DType dtype) {
  return static_cast<double>(rows) * static_cast<double>(5 * dim * size_of(dtype) + sizeof(QueryNotes));
}

QueryRows AttentionBackwardChecker::HeadInputs::queries(int64_t first, int64_t count) const {
  return {rows(first, count), q.rows(first, count), dout.rows(first, count), notes.as<QueryNotes>() + first};
}

KeyRows AttentionBackwardChecker::HeadInputs::keys(int64_t first, int64_t count) const {
  return {rows(first, count), k.rows(first, count), v.rows(first, count)};
}

AttentionBackwardChecker::AttentionBackwardChecker(runtime::Device& device, const AttentionSize& size, int64_t rows,
                                                   DType dtype)
    : device_(device),
      math_(make_attention_backward_math(device)),
      products_(make_bounded_math(device)),
      size_(size),
      rows_(rows),
      dtype_(dtype),
      at_once_(std::min(rows_at_once(device.kind()), size.seq)),
      all_(device, size.seq, size.dim, dtype),
      own_(device, rows, size.dim, dtype),
      lse_(device, size.seq * sizeof(float)),
      weights_(device, at_once_ * at_once_ * sizeof(Bounded)),
      gradients_(device, at_once_ * at_once_ * sizeof(Bounded)),
      results_(device, at_once_ * size.dim * sizeof(Bounded)),
      dq_(device, rows * size.heads * size.dim * sizeof(SlotSum)),
      dk_(device, rows * size.kv_heads * size.dim * sizeof(SlotSum)),
      dv_(device, rows * size.kv_heads * size.dim * sizeof(SlotSum)) {
  all_.shard = {.rows = size.seq};
}

double AttentionBackwardChecker::bytes(DeviceKind device, const AttentionSize& size, int64_t rows, DType dtype) {
  const auto dim = static_cast<double>(size.dim);
  const auto at_once = static_cast<double>(std::min(rows_at_once(device), size.seq));
  const double sums = static_cast<double>(rows * (size.heads + 2 * size.kv_heads)) * dim * sizeof(SlotSum);
  return HeadInputs::bytes(size.seq, size.dim, dtype) + HeadInputs::bytes(rows, size.dim, dtype) + sums +
         at_once * (2 * at_once + dim) * sizeof(Bounded) + static_cast<double>(size.seq) * sizeof(float);
}

std::vector<float> AttentionBackwardChecker::log_sums(const CheckedAttention& checked) {
  std::vector<float> sums(size_.batch * size_.heads * size_.seq);
  for (int64_t batch = 0; batch < size_.batch; ++batch) {
    for (int64_t head = 0; head < size_.heads; ++head) {
      const int64_t kv_head = checked.values.kv_head(head);
      math_->fill(all_.q.view, AttentionTensor::kQueries, checked.values, all_.shard, batch, head);
      math_->fill(all_.k.view, AttentionTensor::kKeys, checked.values, all_.shard, batch, kv_head);
      math_->log_sums(all_.q.view, all_.k.view, checked, head, lse_.as<float>());
      device_.download(sums.data() + (batch * size_.heads + head) * size_.seq, lse_.as(), lse_.bytes());
    }
  }
  return sums;
}

BackwardTally AttentionBackwardChecker::check(const CheckedAttention& checked, const std::vector<float>& log_sums,
                                              const BackwardResults& results) {
  const BackwardRule rule = backward_rule(checked.values, dtype_, checked.scale);
  own_.shard = checked.shard;
  const int64_t group = size_.heads / size_.kv_heads;
  std::vector<Bounded> sinks(size_.heads);
  BackwardTally tally;
  for (int64_t batch = 0; batch < size_.batch; ++batch) {
    products_->clear(dq_.as<SlotSum>(), rows_ * size_.heads * size_.dim);
    products_->clear(dk_.as<SlotSum>(), rows_ * size_.kv_heads * size_.dim);
    products_->clear(dv_.as<SlotSum>(), rows_ * size_.kv_heads * size_.dim);
    for (int64_t head = 0; head < size_.heads; ++head) {
      const int64_t kv_head = head / group;
      device_.upload(lse_.as(), log_sums.data() + (batch * size_.heads + head) * size_.seq, lse_.bytes());
      for (HeadInputs* const inputs : {&all_, &own_}) {
        if (head % group == 0) fill_keys(*inputs, checked, batch, kv_head);
        fill_queries(*inputs, checked, rule, batch, head);
      }
      add_query_sums(checked, rule, head);
      add_key_sums(checked, rule, kv_head);
      if (results.dsink != nullptr) add_sink_parts(checked, head, sinks);
    }
    judge(rule, checked.values, results, batch, tally);
  }
  if (results.dsink == nullptr) return tally;
  std::vector<float> dsink(size_.heads);
  device_.download(dsink.data(), results.dsink, dsink.size() * sizeof(float));
  for (int64_t head = 0; head < size_.heads; ++head) {
    tally.dsink.judge(dsink[head], -sinks[head].value, sink_tolerance(sinks[head].value, sinks[head].bound));
  }
  return tally;
}

void AttentionBackwardChecker::fill_keys(HeadInputs& inputs, const CheckedAttention& checked, int64_t batch,
                                         int64_t kv_head) {
  math_->fill(inputs.k.view, AttentionTensor::kKeys, checked.values, inputs.shard, batch, kv_head);
  math_->fill(inputs.v.view, AttentionTensor::kValues, checked.values, inputs.shard, batch, kv_head);
}

void AttentionBackwardChecker::fill_queries(HeadInputs& inputs, const CheckedAttention& checked,
                                            const BackwardRule& rule, int64_t batch, int64_t head) {
  math_->fill(inputs.q.view, AttentionTensor::kQueries, checked.values, inputs.shard, batch, head);
  math_->fill(inputs.o.view, AttentionTensor::kOutputs, checked.values, inputs.shard, batch, head);
  math_->fill(inputs.dout.view, AttentionTensor::kGradients, checked.values, inputs.shard, batch, head);
  math_->note(inputs.queries(0, inputs.q.view.rows), inputs.o.view, lse_.as<float>(), rule,
              inputs.notes.as<QueryNotes>());
}

void AttentionBackwardChecker::add_query_sums(const CheckedAttention& checked, const BackwardRule& rule, int64_t head) {
  for (int64_t row = 0; row < rows_; row += at_once_) {
    const QueryRows queries = own_.queries(row, std::min(at_once_, rows_ - row));
    const std::vector<Target> targets = targets_of(row, queries.at.count, size_.heads, head, rule.scale);
    for (int64_t key = 0; key < size_.seq; key += at_once_) {
      const KeyRows keys = all_.keys(key, std::min(at_once_, size_.seq - key));
      if (!see_any(checked, queries.at, keys.at)) continue;
      math_->pair({queries, keys, SumsOver::kKeys, nullptr, gradients_.as<Bounded>()}, checked, rule);
      add_product(gradients_, Stored::kAsIs, queries.at.count, keys.k, targets, dq_);
    }
  }
}

void AttentionBackwardChecker::add_key_sums(const CheckedAttention& checked, const BackwardRule& rule,
                                            int64_t kv_head) {
  for (int64_t key = 0; key < rows_; key += at_once_) {
    const KeyRows keys = own_.keys(key, std::min(at_once_, rows_ - key));
    const std::vector<Target> of_values = targets_of(key, keys.at.count, size_.kv_heads, kv_head, 1);
    const std::vector<Target> of_keys = targets_of(key, keys.at.count, size_.kv_heads, kv_head, rule.scale);
    for (int64_t row = 0; row < size_.seq; row += at_once_) {
      const QueryRows queries = all_.queries(row, std::min(at_once_, size_.seq - row));
      if (!see_any(checked, queries.at, keys.at)) continue;
      math_->pair({queries, keys, SumsOver::kQueries, weights_.as<Bounded>(), gradients_.as<Bounded>()}, checked, rule);
      add_product(weights_, Stored::kTransposed, keys.at.count, queries.dout, of_values, dv_);
      add_product(gradients_, Stored::kTransposed, keys.at.count, queries.q, of_keys, dk_);
    }
  }
}

void AttentionBackwardChecker::add_product(const runtime::Buffer& factors, Stored stored, int64_t rows,
                                           const Tensor& right, const std::vector<Target>& targets,
                                           const runtime::Buffer& sums) {
  products_->multiply({factors.as<Bounded>(), stored, rows, right, Stored::kAsIs}, results_.as<Bounded>());
  products_->add(results_.as<Bounded>(), size_.dim, targets, sums.as<SlotSum>());
}

void AttentionBackwardChecker::add_sink_parts(const CheckedAttention& checked, int64_t head,
                                              std::vector<Bounded>& sinks) {
  std::vector<QueryNotes> notes(rows_);
  device_.download(notes.data(), own_.notes.as(), notes.size() * sizeof(QueryNotes));
  const double sink = backward_sink_value(checked.values, head);
  for (const QueryNotes& query : notes) {
    const Bounded part = sink_factor(query, sink, static_cast<double>(size_.batch * rows_));
    sinks[head].value += part.value;
    sinks[head].bound += part.bound;
  }
}

void AttentionBackwardChecker::judge(const BackwardRule& rule, const AttentionValues& values,
                                     const BackwardResults& results, int64_t batch, BackwardTally& tally) {
  const double unit = values.gradient_size;
  const auto judge_one = [&](const HeadTensor& out, const runtime::Buffer& sums, double unit_of_one) {
    const int64_t rows = out.rows * out.heads;
    std::byte* const first = static_cast<std::byte*>(out.data) + batch * rows * out.dim * size_of(out.dtype);
    return math_->judge({first, out.dtype, rows, out.dim}, sums.as<SlotSum>(), rule, unit_of_one);
  };
  tally.dq.add(judge_one(results.dq, dq_, unit * rule.scale * values.key_size));
  tally.dk.add(judge_one(results.dk, dk_, unit * rule.scale * values.query_size));
  tally.dv.add(judge_one(results.dv, dv_, unit));
}

}  // namespace mk::tools
