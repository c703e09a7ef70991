// SPDX-License-Identifier: MIT
// tools/layer_backward_judge.h — which gradients of a layer of experts are right: the rules of layer_judge.h,
// backwards.
//
// ref is again exact arithmetic.  gate, up and weight are inputs, and exact; so are gate and up within their bounds.
// What a right result may be off:
//
//   s            an fp32 sum of p1 products dout · w2, S the sum of magnitudes: off by D = g1·S, g1 = p1·2^-23
//   sigmoid      q = 1 / (1 + exp(-gate)): exp, a sum and a division are off by r = (5 + 2·|gate|)·2^-23 of the value,
//                as in layer_judge.h.  silu = gate · q, and up to three more products make at most (8 + 2·|gate|)·2^-23
//   score        s · silu · up, of a product |a| = |silu · up|:
//                  f = D·|a| + (8 + 2·|gate|)·2^-23 · (|s| + D)·|a|
//   dup          weight · s · silu, with d = |weight · s| and d' = |weight|·D:
//                  e = d'·|silu| + (8 + 2·|gate|)·2^-23 · (d + d')·|silu|
//   scaled       weight · silu · up:   e = (8 + 2·|gate|)·2^-23 · |weight·a|
//   dgate        weight · s · up · q · c, c = 1 + gate·(1 - q).  c may cancel, so its error is one of 1 + |gate|: q's
//   is
//                r, the difference, the product and the sum make 2·2^-23.  With q's own r and four products that is
//                2·r + 4·2^-23, and less than (16 + 4·|gate|)·2^-23 with terms of higher order:
//                  e = d'·|up·q·c| + (16 + 4·|gate|)·2^-23 · (d + d')·|up|·q·(1 + |gate|)
//   operands     dgate, dup and scaled are rounded: A = e + u·(|v| + e) + t
//   sums         of p2 products with an input: off by Σ |input| · (A + g2·(|v| + A)), g2 = p2·2^-23.  So are dw13 and
//                dw2, rounded once, and rows of dx, which then pass the hops of layer_hops.  Scores are summed in fp32:
//                off by Σ f + g2·(|s·a| + f), and are not rounded again.
#pragma once

#include "layer_judge.h"

namespace mk::tools {

// Of one element of a row; each with its bound in the sum that follows, where the other factor is 1.
struct BackwardElement {
  Bounded gate;
  Bounded up;
  Bounded scaled;
  Bounded score;
};

// rule.second_products is p2.
MK_HD inline BackwardElement backward_element(const Bounded& sum, double kept_gate, double kept_up, double weight,
                                              const LayerRule& rule) {
  const double gate = std::fmin(kept_gate, rule.clamp);
  const double up = std::fmax(std::fmin(kept_up, rule.clamp), -rule.clamp);
  const double sigmoid = 1 / (1 + std::exp(-gate));
  const double silu = gate * sigmoid;
  const double factor = up * sigmoid * (1 + gate * (1 - sigmoid));
  const double plain = (8 + 2 * std::fabs(gate)) * 0x1p-23;
  const double cancelling = (16 + 4 * std::fabs(gate)) * 0x1p-23 * std::fabs(up) * sigmoid * (1 + std::fabs(gate));
  const double sum_error = static_cast<double>(rule.first_products) * 0x1p-23 * sum.bound;
  const double d = weight * sum.value;
  const double d_error = std::fabs(weight) * sum_error;
  const double d_most = std::fabs(d) + d_error;
  const double a = silu * up;
  const double score_error = sum_error * std::fabs(a) + plain * (std::fabs(sum.value) + sum_error) * std::fabs(a);
  const Bounded dgate = rounded_operand(d * factor, d_error * std::fabs(factor) + cancelling * d_most, rule);
  const Bounded dup = rounded_operand(d * silu, (d_error + plain * d_most) * std::fabs(silu), rule);
  return {kept_gate > rule.clamp ? Bounded{} : dgate, std::fabs(kept_up) > rule.clamp ? Bounded{} : dup,
          rounded_operand(weight * a, plain * std::fabs(weight * a), rule), operand(sum.value * a, score_error, rule)};
}

}  // namespace mk::tools
