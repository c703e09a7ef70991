// SPDX-License-Identifier: MIT
// tools/judge.h — which results of a matrix product are right.
//
// With ref the exact sum of k products, S the sum of their magnitudes, u the unit roundoff of the
// output's type and t half its smallest subnormal:
//
//   kExact     the fp32 sum is ref itself, so the output equals ref rounded once.       tolerance 0
//   kUniform   every one of k fp32 operations adds an error of at most 2^-23 of a partial sum, and no
//              partial sum exceeds S: the fp32 sum is off by at most g·S, g = k·2^-23.  (2^-24 would do
//              for rounding; tensor cores truncate, which costs a whole last bit.)  Rounding the output
//              adds at most u of the result, or t below the normal numbers:
//                                                       tolerance g·S + u·(|ref| + g·S) + t
//
// Where the result is a sum over ranks, ref is the sum of its parts p, each a sum of k products, and P is
// the sum of their magnitudes.  Each part is off by its share of g·S; then it passes at most h roundings
// to the type and d additions in fp32, each of which changes what it touches by a factor of at most 1 + u
// or 1 + 2^-23, or by t:
//
//   kExact     every part and every sum on the way is an integer the type holds.        tolerance 0
//   kUniform   w = (1 + u)^h · (1 + 2^-23)^d - 1 of P + g·S is added before the last rounding, and 2·h·t
//              for each part (twice, for what later factors make of it):
//                     e = g·S + w·(P + g·S) + 2·h·parts·t          tolerance e + u·(|ref| + e) + t
//
// ref and S come from fp64, whose own error is 2^-30 of g·S and lost in the step from 2^-24 to 2^-23.
// NaN is never right, and outputs start as NaN, so an element nobody wrote is wrong.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/macros.h"
#include "mkernel/types.h"

namespace mk::tools {

struct Rounding {
  double unit = 0;  // u
  double tiny = 0;  // t
};

constexpr Rounding rounding_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return {0x1p-8, 0x1p-134};
    case DType::kFp16: return {0x1p-11, 0x1p-25};
    case DType::kFp32: return {0x1p-24, 0x1p-150};
  }
  return {};
}

// What stands between the parts and the output; nothing if there is one part.
struct Hops {
  double growth = 0;  // w
  double tiny = 0;    // 2·h·parts·t
};

inline Hops hops_of(DType dtype, int parts, int roundings, int additions) {
  const Rounding rounding = rounding_of(dtype);
  const double growth = std::pow(1 + rounding.unit, roundings) * std::pow(1 + 0x1p-23, additions) - 1;
  return {growth, 2.0 * roundings * parts * rounding.tiny};
}

// The exact result as fp64 sums: of all products, of their magnitudes, of the magnitudes of the parts.
struct ExactSum {
  double ref = 0;
  double magnitudes = 0;
  double parts = 0;
};

// Of parts that are off by `error` before the hops, all together.
MK_HD inline double tolerance_after(const Hops& hops, double ref, double parts, double error,
                                    const Rounding& rounding) {
  const double before = error + hops.growth * (parts + error) + hops.tiny;
  return before + rounding.unit * (std::fabs(ref) + before) + rounding.tiny;
}

MK_HD inline double uniform_tolerance(const ExactSum& sum, int64_t k, const Rounding& rounding, const Hops& hops) {
  const double sum_error = static_cast<double>(k) * 0x1p-23 * sum.magnitudes;
  return tolerance_after(hops, sum.ref, sum.parts, sum_error, rounding);
}

// What judging elements adds up to; parts of a matrix may be judged apart and added.
struct Tally {
  unsigned long long wrong = 0;
  double difference = 0;  // squared norms
  double reference = 0;
  double tolerance = 0;

  // 0 and -0 are equal.  The comparison with `expected` lets equal infinities pass.
  MK_HD void judge(double out, double expected, double allowed) {
    const double off = out == expected ? 0 : std::fabs(out - expected);
    if (!(off <= allowed)) ++wrong;
    difference += off * off;
    reference += expected * expected;
    tolerance += allowed * allowed;
  }
  MK_HD void add(const Tally& other) {
    wrong += other.wrong;
    difference += other.difference;
    reference += other.reference;
    tolerance += other.tolerance;
  }
};

// Of a row: the worst over its checks.
struct CheckResult {
  int64_t wrong = 0;  // elements
  double error = 0;   // ‖out − ref‖ / ‖ref‖; NaN if an output is
  double bound = 0;   // ‖tolerance‖ / ‖ref‖

  // A reference of zeros has no relative error: the norms stand as they are.
  static CheckResult of(const Tally& tally) {
    const double norm = tally.reference > 0 ? std::sqrt(tally.reference) : 1.0;
    return {static_cast<int64_t>(tally.wrong), std::sqrt(tally.difference) / norm, std::sqrt(tally.tolerance) / norm};
  }
  void add(const CheckResult& other) {
    wrong += other.wrong;
    if (!(error >= other.error) && !std::isnan(error)) error = other.error;
    bound = std::fmax(bound, other.bound);
  }
};

}  // namespace mk::tools
