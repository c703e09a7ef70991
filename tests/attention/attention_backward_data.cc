// SPDX-License-Identifier: MIT
// tests/attention/attention_backward_data.cc — see attention_backward_data.h.
#include "tests/attention/attention_backward_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "ops/attention/ring_attention_backward_targets.h"
#include "tools/host_loops.h"

namespace mk::test {
namespace {

using tools::AttentionTensor;

double dot(const float* a, const float* b, int64_t dim) {
  double sum = 0;
  for (int64_t d = 0; d < dim; ++d) sum += static_cast<double>(a[d]) * b[d];
  return sum;
}

}  // namespace

// A query of one head.
struct AttentionBackwardData::Query {
  int64_t batch, head, position;
  int64_t kv_head = 0;
  std::vector<int64_t> keys = {};             // that it sees
  std::vector<double> scores = {};            // of each
  double lse = 0, lse_error = 0;              // the launch has an lse that is off by so much at most
  std::vector<double> o = {}, o_errors = {};  // likewise
};

AttentionBackwardData::AttentionBackwardData(const AttentionCase& at, uint64_t seed, uint64_t launch, Outputs outputs)
    : at_(at), outputs_(outputs), scale_(tools::scale_or_default(at.scale, at.shape.dim)) {
  const RingAttentionShape& shape = at.shape;
  values_ = tools::attention_values_for(
      {shape.batch, at.seq(), shape.heads, shape.kv_heads, shape.dim, scale_, at.form.mask}, seed, launch);
  rule_ = tools::backward_rule(values_, shape.dtype, scale_);
  q_ = drawn(AttentionTensor::kQueries, shape.heads);
  k_ = drawn(AttentionTensor::kKeys, shape.kv_heads);
  v_ = drawn(AttentionTensor::kValues, shape.kv_heads);
  o_ = drawn(AttentionTensor::kOutputs, shape.heads);
  dout_ = drawn(AttentionTensor::kGradients, shape.heads);
  for (int64_t head = 0; head < shape.heads; ++head) sinks_.push_back(tools::backward_sink_value(values_, head));
  owners_.resize(at.seq());
  for (int rank = 0; rank < at.world.size(); ++rank) {
    for (const int64_t position : positions_of(at, rank)) owners_[position] = rank;
  }
  for (int64_t key = 0; key < at.seq(); ++key) {
    int64_t& seeing = queries_seeing_.emplace_back(0);
    for (int64_t query = 0; query < at.seq(); ++query) seeing += sees(at.form, at.seq(), query, key) ? 1 : 0;
  }
  dq_.resize(q_.elements.size());
  dk_.resize(k_.elements.size());
  dv_.resize(v_.elements.size());
  dsink_.assign(at.world.size(), std::vector<tools::Bounded>(shape.heads));
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      for (int64_t position = 0; position < at.seq(); ++position) differentiate(query_at(batch, head, position));
    }
  }
}

AttentionBackwardData::Whole AttentionBackwardData::drawn(AttentionTensor tensor, int64_t heads) const {
  const RingAttentionShape& shape = at_.shape;
  Whole whole{{}, at_.seq(), heads, shape.dim};
  tools::with_host_type(shape.dtype, [&]<class T>() {
    for (int64_t i = 0; i < shape.batch * at_.seq() * heads * shape.dim; ++i) {
      const int64_t token = i / shape.dim / heads;
      const float value = tools::attention_value(values_, tensor, token / at_.seq(), token % at_.seq(),
                                                 i / shape.dim % heads, i % shape.dim);
      whole.elements.push_back(to_float(from_float<T>(value)));
    }
  });
  return whole;
}

HeadValues AttentionBackwardData::shard(const Whole& whole, int rank) const {
  const RingAttentionShape& shape = at_.shape;
  HeadValues values{{}, shape.dtype, shape.batch, shape.rows, whole.heads, shape.dim};
  const int64_t of_row = whole.heads * whole.dim;
  tools::with_host_type(shape.dtype, [&]<class T>() {
    values.bytes.resize(shape.batch * shape.rows * of_row * sizeof(T));
    T* to = reinterpret_cast<T*>(values.bytes.data());
    for (int64_t batch = 0; batch < shape.batch; ++batch) {
      for (const int64_t position : positions_of(at_, rank)) {
        const float* const row = whole.row(batch, position, 0);
        to = std::transform(row, row + of_row, to, [](float value) { return from_float<T>(value); });
      }
    }
  });
  return values;
}

std::vector<float> AttentionBackwardData::lse(int rank) const {
  std::vector<float> own;
  for (int64_t i = 0; i < at_.shape.batch * at_.shape.heads; ++i) {
    for (const int64_t position : positions_of(at_, rank)) own.push_back(lse_[i * at_.seq() + position]);
  }
  return own;
}

// ---- what is right -----------------------------------------------------------------------------------

AttentionBackwardData::Query AttentionBackwardData::query_at(int64_t batch, int64_t head, int64_t position) const {
  const RingAttentionShape& shape = at_.shape;
  Query query{batch, head, position, head / (shape.heads / shape.kv_heads)};
  const float* const q = q_.row(batch, position, head);
  tools::SoftmaxSums sums;
  sums.maximum = at_.sinks == Sinks::kGiven ? sinks_[head] : -std::numeric_limits<double>::infinity();
  for (int64_t key = 0; key < at_.seq(); ++key) {
    if (!sees(at_.form, at_.seq(), position, key)) continue;
    query.keys.push_back(key);
    query.scores.push_back(dot(q, k_.row(batch, key, query.kv_head), shape.dim) * scale_);
    sums.maximum = std::max(sums.maximum, query.scores.back());
  }
  std::vector<double> weighed = query.scores;
  if (at_.sinks == Sinks::kGiven) weighed.push_back(sinks_[head]);
  sums.seen = static_cast<double>(query.keys.size());
  for (const double score : weighed) {
    sums.counted += tools::counts(score - sums.maximum) ? 1 : 0;
    sums.sum += std::exp(score - sums.maximum);
  }
  if (outputs_ == Outputs::kOfTheForwardPass) {
    take_forward_result(query, sums);
    return query;
  }
  const float* const o = o_.row(batch, position, head);
  query.lse = tools::backward_lse(values_.kind, sums.maximum, sums.sum);
  query.o.assign(o, o + shape.dim);
  query.o_errors.assign(shape.dim, 0);
  return query;
}

void AttentionBackwardData::take_forward_result(Query& query, const tools::SoftmaxSums& so_far) const {
  const RingAttentionShape& shape = at_.shape;
  const tools::AttentionRule rule = tools::attention_rule(values_, shape.dtype, scale_);
  const float* const q = q_.row(query.batch, query.position, query.head);
  tools::SoftmaxSums sums = so_far;
  double elements = 0;
  for (int64_t d = 0; d < shape.dim; ++d) elements += std::fabs(q[d]);
  sums.magnitudes = tools::score_magnitude(rule, elements);
  if (at_.sinks == Sinks::kGiven) sums.magnitudes = std::fmax(sums.magnitudes, std::fabs(sinks_[query.head]));
  query.lse = tools::lse_of(sums);
  query.lse_error = tools::lse_tolerance(rule, sums);
  for (int64_t d = 0; d < shape.dim; ++d) {
    double o = 0, magnitude = 0;
    for (size_t i = 0; i < query.keys.size(); ++i) {
      const double part = std::exp(query.scores[i] - query.lse) * v_.row(query.batch, query.keys[i], query.kv_head)[d];
      o += part;
      magnitude += std::fabs(part);
    }
    query.o.push_back(o);
    query.o_errors.push_back(tools::o_tolerance(rule, sums, o, magnitude));
  }
}

// Another lse changes a weight by the part exp(error), and errors of o add to those of delta.
tools::QueryNotes AttentionBackwardData::notes_of(const Query& query) const {
  const float* const q = q_.row(query.batch, query.position, query.head);
  const float* const dout = dout_.row(query.batch, query.position, query.head);
  tools::QuerySums sums;
  double delta_error = 0;
  for (int64_t d = 0; d < at_.shape.dim; ++d) {
    const double part = dout[d] * query.o[d];
    sums.queries += std::fabs(q[d]);
    sums.gradients += std::fabs(dout[d]);
    sums.delta += part;
    delta_error += std::fabs(dout[d]) * query.o_errors[d];
    sums.deltas += std::fabs(part);
  }
  sums.deltas += delta_error;
  tools::QueryNotes notes = tools::query_notes(rule_, sums, std::fabs(query.lse) + query.lse_error);
  notes.lse = query.lse;
  notes.weight_error = (1 + notes.weight_error) * std::exp(query.lse_error) - 1;
  notes.difference_error += delta_error;
  return notes;
}

void AttentionBackwardData::differentiate(const Query& query) {
  const int64_t dim = at_.shape.dim;
  const auto group = static_cast<double>(at_.shape.heads / at_.shape.kv_heads);
  const float* const q = q_.row(query.batch, query.position, query.head);
  const float* const dout = dout_.row(query.batch, query.position, query.head);
  const tools::QueryNotes notes = notes_of(query);
  tools::SlotSum* const dq = &dq_[q_.offset(query.batch, query.position, query.head)];
  lse_.push_back(static_cast<float>(query.lse));
  for (size_t i = 0; i < query.keys.size(); ++i) {
    const int64_t key = query.keys[i];
    const int64_t at = k_.offset(query.batch, key, query.kv_head);
    const float* const k = &k_.elements[at];
    const double product = dot(dout, &v_.elements[at], dim);
    const auto factors = [&](double terms) {
      return tools::pair_factors(rule_, notes, query.scores[i], product, terms);
    };
    const tools::PairFactors over_keys = factors(static_cast<double>(query.keys.size()));
    const tools::PairFactors over_queries = factors(static_cast<double>(queries_seeing_[key]) * group);
    for (int64_t d = 0; d < dim; ++d) {
      tools::add_weighted(over_keys.gradient, rule_.scale * k[d], dq[d]);
      tools::add_weighted(over_queries.gradient, rule_.scale * q[d], dk_[at + d]);
      tools::add_weighted(over_queries.weight, dout[d], dv_[at + d]);
    }
  }
  if (at_.sinks == Sinks::kNone) return;
  const tools::Bounded part = sink_part(query, notes);
  tools::Bounded& dsink = dsink_[owners_[query.position]][query.head];
  dsink.value -= part.value;
  dsink.bound += part.bound;
}

// The judge's bound, and what another lse makes of a weight: exp(error) of it, and errors of its own that grow with it.
tools::Bounded AttentionBackwardData::sink_part(const Query& query, const tools::QueryNotes& notes) const {
  const double sink = sinks_[query.head];
  const auto terms = static_cast<double>(at_.shape.batch * at_.shape.rows);
  tools::Bounded part = tools::sink_factor(notes, sink, terms);
  if (query.lse_error == 0) return part;
  tools::QueryNotes farther = notes;
  farther.lse = query.lse - query.lse_error;
  const double sizes = 2 * query.lse_error * 0x1p-23 * 2;
  const tools::Bounded largest = tools::sink_factor(farther, sink, terms);
  part.bound = largest.bound * (1 + sizes) + (std::expm1(query.lse_error) + sizes) * std::fabs(largest.value);
  return part;
}

testing::AssertionResult AttentionBackwardData::matches(const std::string& name, const HeadValues& seen,
                                                        const Whole& like, const Sums& sums, double unit,
                                                        int rank) const {
  const std::vector<int64_t> positions = positions_of(at_, rank);
  const int64_t of_row = like.heads * like.dim;
  testing::AssertionResult result = testing::AssertionSuccess();
  tools::with_host_type(seen.dtype, [&]<class T>() {
    const T* const data = reinterpret_cast<const T*>(seen.bytes.data());
    for (int64_t i = 0; i < at_.shape.batch * at_.shape.rows * of_row && result; ++i) {
      const int64_t row = i / of_row;
      const int64_t position = positions[row % at_.shape.rows];
      const tools::SlotSum& sum = sums[like.offset(row / at_.shape.rows, position, 0) + i % of_row];
      const double allowed = tools::backward_tolerance(rule_, sum.ref, sum.error, unit);
      if (std::fabs(to_float(data[i]) - sum.ref) <= allowed) continue;
      result = testing::AssertionFailure()
               << "rank " << rank << ", batch " << row / at_.shape.rows << ", position " << position << ", head "
               << i % of_row / like.dim << ": element " << i % like.dim << " of " << name << " is " << to_float(data[i])
               << ", not " << sum.ref << " within " << allowed;
    }
  });
  return result;
}

testing::AssertionResult AttentionBackwardData::is_right(int rank, const AttentionGradients& seen) const {
  const double unit = values_.gradient_size;
  const auto dq = matches("dq", seen.dq, q_, dq_, unit * rule_.scale * values_.key_size, rank);
  if (!dq) return dq;
  const auto dk = matches("dk", seen.dk, k_, dk_, unit * rule_.scale * values_.query_size, rank);
  if (!dk) return dk;
  const auto dv = matches("dv", seen.dv, v_, dv_, unit, rank);
  if (!dv) return dv;
  for (size_t head = 0; head < seen.dsink.size(); ++head) {
    const tools::Bounded& right = dsink_[rank][head];
    const double allowed = tools::sink_tolerance(right.value, right.bound);
    if (std::fabs(seen.dsink[head] - right.value) <= allowed) continue;
    return testing::AssertionFailure() << "rank " << rank << ": dsink of head " << head << " is " << seen.dsink[head]
                                       << ", not " << right.value << " within " << allowed;
  }
  return testing::AssertionSuccess();
}

// ---- launches ----------------------------------------------------------------------------------------

namespace {

constexpr float kPoisonFloat = std::numeric_limits<float>::quiet_NaN();

}  // namespace

AttentionBackwardLaunch::AttentionBackwardLaunch(World& world, const AttentionCase& at, uint64_t seed, uint64_t launch,
                                                 Outputs outputs, SinkGradients sinks)
    : first_(world.first_rank()), at_(at), outputs_(outputs), data_(at, seed, launch, outputs), sinks_(data_.sinks()) {
  for (int rank = first_; rank < first_ + world.num_ranks(); ++rank) {
    Rank& own = ranks_.emplace_back();
    own.q = placed(at, rank, 0, data_.q(rank));
    own.k = placed(at, rank, 1, data_.k(rank));
    own.v = placed(at, rank, 2, data_.v(rank));
    own.o = outputs == Outputs::kDrawn ? placed(at, rank, 3, data_.o(rank)) : poisoned(at, rank, 3, data_.o(rank));
    own.dout = placed(at, rank, 4, data_.dout(rank));
    own.lse = data_.lse(rank);
    own.dq = poisoned(at, rank, 5, data_.q(rank));
    own.dk = poisoned(at, rank, 6, data_.k(rank));
    own.dv = poisoned(at, rank, 7, data_.v(rank));
    if (at.sinks == Sinks::kGiven && sinks == SinkGradients::kWanted) own.dsink.assign(sinks_.size() + 1, kPoisonFloat);
    if (outputs == Outputs::kOfTheForwardPass) std::ranges::fill(own.lse, kPoisonFloat);
  }
  for (Rank& own : ranks_) args_.push_back(args_of(own));
}

RingAttentionBackwardArgs AttentionBackwardLaunch::args_of(Rank& own) {
  return {.q = own.q.view(),
          .k = own.k.view(),
          .v = own.v.view(),
          .o = own.o.view(),
          .dout = own.dout.view(),
          .lse = own.lse.data(),
          .sink = at_.sinks == Sinks::kGiven ? sinks_.data() : nullptr,
          .dq = own.dq.view(),
          .dk = own.dk.view(),
          .dv = own.dv.view(),
          .dsink = own.dsink.empty() ? nullptr : own.dsink.data()};
}

void AttentionBackwardLaunch::enqueue(World& world, const Split& split) {
  if (outputs_ == Outputs::kOfTheForwardPass) {
    std::vector<RingAttentionArgs> forward;
    for (size_t i = 0; i < args_.size(); ++i) {
      const RingAttentionBackwardArgs& own = args_[i];
      forward.push_back(
          {.q = own.q, .k = own.k, .v = own.v, .o = own.o, .lse = ranks_[i].lse.data(), .sink = own.sink});
    }
    ring_attention(world, forward, at_.options());
  }
  ring_attention_backward(world, args_, at_.options(split));
}

void AttentionBackwardLaunch::enqueue_without(World& world, int missing) {
  runtime::WorldState& state = world.state();
  const attention::Problem problem = attention::problem_of(state.shape(), state.members(), args_, at_.options());
  const runtime::Plan& plan = attention::backward_plan_for(state, problem, {});
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != missing) attention::launch_backward_rank(state, plan, rank, problem, args_[rank]);
  }
}

testing::AssertionResult AttentionBackwardLaunch::is_right() const {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const int rank = first_ + static_cast<int>(i);
    const Rank& own = ranks_[i];
    const bool is_clean = own.o.gaps_are_untouched() && own.dq.gaps_are_untouched() && own.dk.gaps_are_untouched() &&
                          own.dv.gaps_are_untouched() && (own.dsink.empty() || std::isnan(own.dsink.back()));
    if (!is_clean) return testing::AssertionFailure() << "rank " << rank << " wrote too much";
    AttentionGradients seen{values_in(own.dq, data_.q(rank)), values_in(own.dk, data_.k(rank)),
                            values_in(own.dv, data_.v(rank)), own.dsink};
    if (!seen.dsink.empty()) seen.dsink.pop_back();
    if (const auto right = data_.is_right(rank, seen); !right) return right;
  }
  return testing::AssertionSuccess();
}

bool AttentionBackwardLaunch::is_untouched() const {
  return std::ranges::all_of(ranks_, [](const Rank& own) {
    return own.dq.is_untouched() && own.dk.is_untouched() && own.dv.is_untouched() &&
           std::ranges::all_of(own.dsink, [](float value) { return std::isnan(value); });
  });
}

}  // namespace mk::test
