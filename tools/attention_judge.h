// SPDX-License-Identifier: MIT
// tools/attention_judge.h — which results of attention are right: the rules of judge.h, through a softmax.
//
// For one query and head, in exact arithmetic: scores s of the n keys that it sees, and of the sink; m their maximum;
// weights p = exp(s - m), l their sum; V = Σ p·|v| / l.  o = Σ p·v / l, lse = m + ln l.  With one last bit of fp32,
// b = 2^-23, what a right result may be off:
//
//   score    an fp32 sum of d products, times the scale, whose magnitudes add up to A at most, as does the sink's: s is
//            off by (d + 2)·b·A; s - m by twice that, and by 4·b·A more for the subtraction and a change to powers of
//            two, which exp does not forgive.  exp itself is off by 4 last bits.  So a weight is off by the part
//              w = ((2·d + 8)·A + 4)·b
//   sums     c weights are not zero in fp32.  Each addition costs a last bit, and each time the maximum grows, or parts
//            are put together, three more: a block has 8 keys at least, so that both sums are off by the part
//              g = (1.5·c + 16)·b
//   weights  are rounded to the type before they multiply values (not in their sum): u of each, t of those that are
//            tiny, against a sum of at least 1 and values of at most v
//   o        numerator and denominator: e = (w + g)/(1 - w - g)·(V + |o|) + u·V + n·t·v/l; o is rounded, so
//              u·(|o| + e) + t more
//   lse      (w + g)/(1 - w - g) + 4·b·(|m| + |lse|)
//
// With exact data (attention_values.h) weights are 0, or 1 but for w, which rounding to 16 bits makes 1: u and t of the
// weights fall away, d is the number of bits of a code, and c the number of keys that have weight.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention_values.h"
#include "judge.h"

namespace mk::tools {

struct AttentionRule {
  DataKind kind = DataKind::kUniform;
  Rounding rounding;      // of o
  Rounding weights = {};  // of weights; nothing: they stay in fp32
  double scale = 1;
  double products = 1;       // d
  double largest_key = 1;    // of an element of k
  double largest_value = 1;  // v
};

inline AttentionRule attention_rule(const AttentionValues& values, DType dtype, double scale) {
  const bool are_rounded = dtype != DType::kFp32 && values.kind == DataKind::kUniform;
  return {values.kind,
          rounding_of(dtype),
          are_rounded ? rounding_of(dtype) : Rounding{},
          scale,
          static_cast<double>(values.products()),
          values.key_size,
          values.largest_value()};
}

// Of one query and head.
struct SoftmaxSums {
  double maximum = 0;     // m, the sink included
  double sum = 0;         // l
  double counted = 0;     // c
  double seen = 0;        // n
  double magnitudes = 0;  // A
};

// A weight that fp32 may still hold.
MK_HD inline bool counts(double score_below_maximum) { return score_below_maximum > -104; }

// `elements` is Σ |q| of the query.
MK_HD inline double score_magnitude(const AttentionRule& rule, double elements) {
  return rule.scale * elements * rule.largest_key;
}

MK_HD inline double sums_error(const AttentionRule& rule, const SoftmaxSums& sums) {
  const double weights = (2 * rule.products + 8) * sums.magnitudes + 4;
  const double part = (weights + 1.5 * sums.counted + 16) * 0x1p-23;
  return part < 0.5 ? part / (1 - part) : 1;
}

// `magnitude` is V.
MK_HD inline double o_tolerance(const AttentionRule& rule, const SoftmaxSums& sums, double o, double magnitude) {
  const double tiny = sums.seen * rule.weights.tiny * rule.largest_value / sums.sum;
  const double before = sums_error(rule, sums) * (magnitude + std::fabs(o)) + rule.weights.unit * magnitude + tiny;
  return before + rule.rounding.unit * (std::fabs(o) + before) + rule.rounding.tiny;
}

MK_HD inline double lse_of(const SoftmaxSums& sums) { return sums.maximum + std::log(sums.sum); }

MK_HD inline double lse_tolerance(const AttentionRule& rule, const SoftmaxSums& sums) {
  return sums_error(rule, sums) + 0x1p-21 * (std::fabs(sums.maximum) + std::fabs(lse_of(sums)));
}

// Of a rank's launch.
struct AttentionTally {
  Tally o;
  Tally lse;

  MK_HD void add(const AttentionTally& other) {
    o.add(other.o);
    lse.add(other.lse);
  }
};

}  // namespace mk::tools
