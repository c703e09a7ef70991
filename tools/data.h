// SPDX-License-Identifier: MIT
// tools/data.h — input values as a pure function of where they stand.
//
// An element depends on seed, launch, tensor, rank and index alone, so any thread of any device can
// make it, and a check can make the inputs again instead of trusting what a launch left behind.
#pragma once

#include <cstdint>
#include <numeric>

#include "base/macros.h"
#include "mkernel/types.h"

namespace mk::tools {

enum class DataKind {
  kUniform,  // evenly spread over (-1, 1); results are judged by a bound
  kExact,    // small integers whose sums of products fp32 holds exactly; results must be equal
};

struct DataSpec {
  DataKind kind = DataKind::kUniform;
  int magnitude = 1;  // kExact: integers from -magnitude to magnitude
  uint64_t seed = 0;
  uint64_t launch = 0;
  uint64_t tensor = 0;  // a number the operator gives each of its tensors
  uint64_t rank = 0;
  int64_t period = 1;  // all but every period-th element are zero
  float scale = 1;     // a power of two that multiplies every element
};

// The data of one rank, or of one expert.
constexpr DataSpec of(DataSpec spec, int rank_or_expert) {
  spec.rank = static_cast<uint64_t>(rank_or_expert);
  return spec;
}

// Longest sum for which the bound of kUniform says something: the worst-case error of fp32 sums grows
// faster than the sums do, and reaches a fifth of them here.
constexpr int64_t kLongestUniformSum = int64_t{1} << 14;

// Integers up to 2^24 are exact in fp32.
constexpr int64_t kLongestExactSum = (int64_t{1} << 24) - 1;

// The largest n so that all integers up to it are exact in the type.
constexpr int64_t largest_integer(DType dtype) {
  return dtype == DType::kBf16 ? 1 << 8 : dtype == DType::kFp16 ? 1 << 11 : kLongestExactSum;
}

// The period that leaves at most `products` elements in a row of k.
constexpr int64_t period_for(int64_t k, int64_t products) {
  int64_t period = products >= k ? 1 : (k + products - 1) / products;
  // Another column is left in each row, so that every column is used by some row.
  while (period > 1 && std::gcd(period, k) > 1) ++period;
  return period;
}

// Data of one launch whose sums have `k` products, 1 ≤ k ≤ kLongestExactSum: the kinds take turns
// where both say something.  rank and tensor are left to the caller.
constexpr DataSpec data_for(int64_t k, uint64_t seed, uint64_t launch) {
  DataSpec spec;
  spec.kind = launch % 2 == 0 && k <= kLongestUniformSum ? DataKind::kUniform : DataKind::kExact;
  spec.magnitude = 16 * k <= kLongestExactSum ? 4 : 4 * k <= kLongestExactSum ? 2 : 1;
  spec.seed = seed;
  spec.launch = launch;
  return spec;
}

// The same where a result is the sum of `parts` such sums, and partial results are rounded to a type that
// holds integers up to `largest`: of exact data so many elements of A are zero that no sum exceeds it.
// B is dense.  Where even one product a part is too many, the data are uniform.
constexpr DataSpec data_for_sum(int64_t k, int64_t parts, int64_t largest, uint64_t seed, uint64_t launch) {
  DataSpec spec = data_for(k, seed, launch);
  const int64_t products = largest / parts;  // in a part, of magnitude 1
  if (products < 1) spec.kind = DataKind::kUniform;
  if (spec.kind == DataKind::kUniform) return spec;
  spec.magnitude = 1;
  spec.period = period_for(k, products);
  return spec;
}

// The finaliser of splitmix64: every output bit depends on every input bit.
MK_HD constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;  // 2^64 / φ, odd: steps through all 64-bit words

MK_HD constexpr uint64_t key_of(const DataSpec& spec) {
  uint64_t key = mix(spec.seed + kGoldenRatio);
  key = mix(key + kGoldenRatio * (spec.launch + 1));
  key = mix(key + kGoldenRatio * (spec.tensor + 1));
  return mix(key + kGoldenRatio * (spec.rank + 1));
}

// Element `index` of the tensor whose key_of is `key`, before it is rounded to the tensor's type.
MK_HD constexpr float value_at(const DataSpec& spec, uint64_t key, uint64_t index) {
  if (spec.period > 1 && index % static_cast<uint64_t>(spec.period) != 0) return 0;
  const uint64_t bits = mix(key + kGoldenRatio * index);
  if (spec.kind == DataKind::kExact) {
    const uint64_t choices = 2 * static_cast<uint64_t>(spec.magnitude) + 1;
    return static_cast<float>(static_cast<int>((bits >> 32) % choices) - spec.magnitude) * spec.scale;
  }
  // An odd number of 2^-24 steps: never zero, never ±1, exact in fp32.
  const int32_t steps = 2 * static_cast<int32_t>(bits >> 40) + 1 - (1 << 24);
  return static_cast<float>(steps) * 0x1p-24f * spec.scale;
}

}  // namespace mk::tools
