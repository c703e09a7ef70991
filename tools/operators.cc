// SPDX-License-Identifier: MIT
// tools/operators.cc — the table of operators.
#include "operators.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/attention/ring_attention_backward_layout.h"
#include "ops/gemm_ar/gemm_ar_two_shot.h"
#include "ops/gemm_rs/gemm_rs_problem.h"
#include "ops/moe/moe_layer_layout.h"

namespace mk::tools {
namespace {

constexpr Operator kOperators[] = {
    {"ag_gemm", "AllGather+GEMM: every rank multiplies the rows of all ranks with its own B",
     ag_gemm_op::Layout::kRoles, run_ag_gemm},
    {"gemm_rs", "GEMM+ReduceScatter: the ranks sum their products and each keeps its own rows",
     gemm_rs_op::Layout::kRoles, run_gemm_rs},
    {"gemm_ar", "GEMM+AllReduce: the ranks sum their products and every rank gets the whole sum",
     gemm_ar_op::TwoShotLayout::kRoles, run_gemm_ar},
    {"moe_dispatch_gemm", "MoE dispatch+GEMM: tokens travel to the ranks of their experts, which multiply them",
     moe::Layout::kRoles, run_moe_dispatch_gemm},
    {"moe_layer", "MoE layer: tokens travel to their experts, gate, up and w2, and weighted results come back",
     moe::LayerLayout::kRoles, run_moe_layer, moe::LayerLayout::kRoles},
    {"ring_attention", "attention over a sequence of all ranks: keys and values travel to the queries that see them",
     attention::Layout::kRoles, run_ring_attention, attention::BackwardLayout::kRoles},
};
constexpr std::span<const Operator> kGemmOperators = std::span(kOperators).first(3);

std::string names_of(std::span<const Operator> operators) {
  std::string names;
  for (const Operator& one : operators) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
  return names;
}

}  // namespace

std::span<const Operator> operators() { return kOperators; }

const Operator* find_operator(std::string_view name) {
  for (const Operator& one : kOperators) {
    if (name == one.name) return &one;
  }
  return nullptr;
}

std::string operator_names() { return names_of(kOperators); }

std::string backward_operator_names() {
  std::string names;
  for (const Operator& one : kOperators) {
    if (one.has_backward()) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
  }
  return names;
}

bool is_gemm_operator(std::string_view name) {
  return std::ranges::any_of(kGemmOperators, [&](const Operator& one) { return name == one.name; });
}
std::string gemm_operator_names() { return names_of(kGemmOperators); }

}  // namespace mk::tools
