// SPDX-License-Identifier: MIT
// tools/layer_judge.h — which results of a layer of experts are right: the rules of judge.h, through both GEMMs.
//
// ref is the layer in exact arithmetic: nothing is rounded on its way.  What a right result may be off, step by step:
//
//   gate, up     fp32 sums of p1 products, G and U the sums of magnitudes: off by g1·G and g1·U, g1 = p1·2^-23; more
//                where they are rounded before the activation, as a library of separate kernels has to
//   bounds       with a clamp, min(gate, L) and min(max(up, -L), L) are off by no more than gate and up were
//   activation   a = silu(gate) · up in fp32, rounded once.  |silu'| < 1.1, so what comes in makes
//                  d = 1.1·g1·G · (|up| + g1·U) + |silu(gate)| · g1·U
//                exp, a sum, a division and a product add s = (8 + 2·|gate|) · 2^-23 of the value: exp is off by at
//                most 2 + 1.2·|gate| last bits (CUDA's __expf; libm's is off by one), a division by two.  With rounding
//                  e = d + s·(|a| + d)          A = e + u·(|a| + e) + t
//   result       an fp32 sum of p2 products w2 · a: off by Σ |w2| · (A + g2·(|a| + A)), g2 = p2·2^-23
//   output       a sum of weighted results: the parts of judge.h.  Each is multiplied in fp32 and rounded; the sum of a
//                node is rounded again where it crosses.
#pragma once

#include <cmath>
#include <limits>

#include "data.h"
#include "judge.h"

namespace mk::tools {

// A number and its bound.  Of products and their sums: what their magnitudes add up to.  Of an activation: how far off
// a result is for it, where w2 is 1.  Of a result: how far it is off.
struct Bounded {
  double value = 0;
  double bound = 0;
};

// Of one output: weighted results of its slots.
struct SlotSum {
  double ref = 0;
  double parts = 0;  // magnitudes
  double error = 0;
};

MK_HD inline void add_weighted(const Bounded& result, double weight, SlotSum& sum) {
  sum.ref += weight * result.value;
  sum.parts += std::fabs(weight * result.value);
  sum.error += std::fabs(weight) * result.bound;
}

struct LayerRule {
  DataKind kind = DataKind::kUniform;
  int64_t first_products = 1;   // p1
  int64_t second_products = 1;  // p2
  Rounding rounding;
  Hops hops;
  double clamp = std::numeric_limits<double>::infinity();  // L
  Rounding gates = {};  // of gate and up, before the activation; nothing: they stay in fp32
};

inline double bound_of(float clamp) { return clamp > 0 ? clamp : std::numeric_limits<double>::infinity(); }

inline Hops layer_hops(DType dtype, int topk, int nodes) {
  return hops_of(dtype, topk, nodes > 1 ? 2 : 1, 1 + topk + nodes);
}

// A factor of the second GEMM that is off by `error`.
MK_HD inline Bounded operand(double value, double error, const LayerRule& rule) {
  const double g2 = static_cast<double>(rule.second_products) * 0x1p-23;
  return {value, error + g2 * (std::fabs(value) + error)};
}

// The same after it was rounded to the type.  A zero stays one.
MK_HD inline Bounded rounded_operand(double value, double error, const LayerRule& rule) {
  if (value == 0 && error == 0) return {};
  return operand(value, error + rule.rounding.unit * (std::fabs(value) + error) + rule.rounding.tiny, rule);
}

MK_HD inline Bounded activation(const Bounded& gate, const Bounded& up, const LayerRule& rule) {
  const double bounded_gate = std::fmin(gate.value, rule.clamp);
  const double bounded_up = std::fmax(std::fmin(up.value, rule.clamp), -rule.clamp);
  const double silu = bounded_gate / (1 + std::exp(-bounded_gate));
  const double a = silu * bounded_up;
  const double g1 = static_cast<double>(rule.first_products) * 0x1p-23;
  const auto error_of = [&](const Bounded& sum) {
    const double error = g1 * sum.bound;
    return error + rule.gates.unit * (std::fabs(sum.value) + error) + rule.gates.tiny;
  };
  const double gate_error = 1.1 * error_of(gate);
  const double up_error = error_of(up);
  const double d = gate_error * (std::fabs(bounded_up) + up_error) + std::fabs(silu) * up_error;
  const double s = (8 + 2 * std::fabs(bounded_gate)) * 0x1p-23;
  return rounded_operand(a, d + s * (std::fabs(a) + d), rule);
}

MK_HD inline double layer_tolerance(const SlotSum& sum, const LayerRule& rule) {
  return tolerance_after(rule.hops, sum.ref, sum.parts, sum.error, rule.rounding);
}

// `rounded` is sum.ref in the type.
MK_HD inline void judge_sum(double seen, double rounded, const SlotSum& sum, const LayerRule& rule, Tally& tally) {
  if (rule.kind == DataKind::kExact) {
    tally.judge(seen, rounded, 0);
  } else {
    tally.judge(seen, sum.ref, layer_tolerance(sum, rule));
  }
}

}  // namespace mk::tools
