// SPDX-License-Identifier: MIT
// tools/attention_backward_judge.h — which gradients of attention are right: the rules of attention_judge.h, backwards.
//
// q, k, v, o, dout, lse and sinks are inputs, and exact; any lse is, not only what the forward pass writes.  For a
// query and a key that it sees, in exact arithmetic: s their score, p = exp(s - lse), x = p · (dout·v - delta).  With
// one last bit of fp32, b = 2^-23, what a right result may be off:
//
//   p        s is an fp32 sum of d products, times the scale, whose magnitudes add up to A at most: off by (d + 2)·b·A.
//            A change to powers of two makes 3·b·(A + |lse|) more, exp itself 4 last bits.  So p is off by the part
//              r = exp(w) - 1, w = ((d + 5)·A + 3·|lse| + 4)·b
//   dout·v   and delta are sums of dim products, whose magnitudes add up to M at most: with the subtraction, off by
//              e = (dim + 2)·b·M
//   x        f = p·(1 + r)·e + r·p·|dout·v - delta|, and b·(|x| + f) more
//   rounded  p and x are rounded to the type before they multiply (fp32 stays as it is): u of each, t of those that are
//            tiny.  So their errors are at most r·p + u·(p + r·p) + t, likewise for x.
//   sums     of n terms, which pass n additions at most, in any order, and two products with the scale: off by
//              Σ |factor| · (error + (n + 3)·b·(|value| + error))
//            for dv with p and dout, for dk with x and q, for dq with x and k; a result is rounded once more.
//   dsink    terms exp(sink - lse)·delta are off likewise, with w = (2·(|sink| + |lse|) + 4)·b.  The sum stays in fp32.
//
// With exact data (attention_values.h) lse is the largest score, so that p is 1 or nothing, and x a whole number that
// the type holds: what is off is w = ((d/4 + 4)·A + 4)·b of either, since a score is a whole multiple of one product.
// Rounding takes it away if exp(w) - 1 + b is below u/2, and cannot more than double it.  A sum S of magnitudes has no
// more than S terms of one unit each, and adding nothing costs nothing: n is S in such units.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention_values.h"
#include "judge.h"
#include "layer_judge.h"

namespace mk::tools {

struct BackwardRule {
  DataKind kind = DataKind::kUniform;
  Rounding rounding;       // of results
  Rounding operands = {};  // of p and x; nothing: they stay in fp32
  double scale = 1;
  double products = 1;  // d
  double dim = 1;
  double largest_key = 1;  // of an element of k
  double largest_value = 1;
  double whole_error = 0;  // of exact data: of p and x, as a part of them
};

// What is known of a query before its keys are.
struct QueryNotes {
  double lse = 0;
  double delta = 0;
  double weight_error = 0;      // r
  double difference_error = 0;  // e
};

// Sums of magnitudes of a query's row.
struct QuerySums {
  double queries = 0;    // Σ |q|
  double gradients = 0;  // Σ |dout|
  double delta = 0;      // Σ o·dout
  double deltas = 0;     // Σ |o·dout|
};

inline BackwardRule backward_rule(const AttentionValues& values, DType dtype, double scale) {
  BackwardRule rule{values.kind,
                    rounding_of(dtype),
                    dtype == DType::kFp32 ? Rounding{} : rounding_of(dtype),
                    scale,
                    static_cast<double>(values.products()),
                    static_cast<double>(values.dim),
                    values.key_size,
                    values.largest_value()};
  if (values.kind == DataKind::kUniform) return rule;
  const double off = std::expm1(((rule.products / 4 + 4) * values.best_score + 4) * 0x1p-23) + 0x1p-23;
  const bool is_rounded_away = off < rule.operands.unit / 2;
  rule.whole_error = is_rounded_away ? 0 : rule.operands.unit > 0 ? 2 * off : off;
  return rule;
}

// What the forward pass writes, or with exact data the largest score.
MK_HD inline float backward_lse(DataKind kind, double maximum, double sum) {
  return static_cast<float>(kind == DataKind::kExact ? maximum : maximum + std::log(sum));
}

MK_HD inline QueryNotes query_notes(const BackwardRule& rule, const QuerySums& sums, double lse) {
  if (rule.kind == DataKind::kExact) return {lse, sums.delta, 0, 0};
  const double scores = rule.scale * sums.queries * rule.largest_key;
  const double off = ((rule.products + 5) * scores + 3 * std::fabs(lse) + 4) * 0x1p-23;
  const double magnitudes = rule.largest_value * sums.gradients + sums.deltas;
  return {lse, sums.delta, std::expm1(off), (rule.dim + 2) * 0x1p-23 * magnitudes};
}

// The factor of a sum of so many terms: its value, and what its error and the sum's make of a factor of 1.
MK_HD inline Bounded rounded_factor(const BackwardRule& rule, double value, double error, double terms) {
  const double rounded = error + rule.operands.unit * (std::fabs(value) + error) + rule.operands.tiny;
  return {value, rounded + (terms + 3) * 0x1p-23 * (std::fabs(value) + rounded)};
}

// p and x of a pair.
struct PairFactors {
  Bounded weight;
  Bounded gradient;
};

// `product` is dout·v.  With exact data bounds are magnitudes.
MK_HD inline PairFactors pair_factors(const BackwardRule& rule, const QueryNotes& query, double score, double product,
                                      double terms) {
  constexpr double kFlushed = 0x1p-126;  // below the normal numbers of fp32 there may be nothing
  const double difference = product - query.delta;
  if (rule.kind == DataKind::kExact) {
    const double weight = score - query.lse > -0.5 ? 1 : 0;
    return {{weight, weight}, {weight * difference, weight * std::fabs(difference)}};
  }
  const double weight = std::exp(score - query.lse);
  const double weight_error = query.weight_error * weight + kFlushed;
  const double gradient = weight * difference;
  const double before = (weight + weight_error) * query.difference_error + weight_error * std::fabs(difference);
  const double error = before + 0x1p-23 * (std::fabs(gradient) + before) + kFlushed;
  return {rounded_factor(rule, weight, weight_error, terms), rounded_factor(rule, gradient, error, terms)};
}

// `bound` is what the sum of bounds is; `unit` that of the sum's terms.
MK_HD inline double backward_tolerance(const BackwardRule& rule, double ref, double bound, double unit) {
  double before = bound;
  if (rule.kind == DataKind::kExact) {
    const double sum_error = (bound / unit + 3) * 0x1p-23;
    before = (rule.whole_error + sum_error + rule.whole_error * sum_error) * bound;
  }
  return before + rule.rounding.unit * (std::fabs(ref) + before) + rule.rounding.tiny;
}

// A query's part of -dsink.
inline Bounded sink_factor(const QueryNotes& query, double sink, double terms) {
  const double weight = std::exp(sink - query.lse);
  const double off = std::expm1((2 * (std::fabs(sink) + std::fabs(query.lse)) + 4) * 0x1p-23);
  const double part = weight * query.delta;
  const double error = weight * (1 + off) * query.difference_error + off * std::fabs(part) + 0x1p-126;
  return {part, error + (terms + 2) * 0x1p-23 * (std::fabs(part) + error)};
}

inline double sink_tolerance(double ref, double bound) {
  const Rounding rounding = rounding_of(DType::kFp32);
  return bound + rounding.unit * (std::fabs(ref) + bound) + rounding.tiny;
}

// Of a rank's launch.
struct BackwardTally {
  Tally dq, dk, dv, dsink;

  void add(const BackwardTally& other) {
    dq.add(other.dq);
    dk.add(other.dk);
    dv.add(other.dv);
    dsink.add(other.dsink);
  }
  unsigned long long wrong() const { return dq.wrong + dk.wrong + dv.wrong + dsink.wrong; }
};

}  // namespace mk::tools
