// SPDX-License-Identifier: MIT
// tools/operators.cc — the table of operators.
#include "operators.h"

#include <fmt/format.h>

#include "ops/ag_gemm/ag_gemm_problem.h"
#include "ops/gemm_ar/gemm_ar_two_shot.h"
#include "ops/gemm_rs/gemm_rs_problem.h"

namespace mk::tools {
namespace {

constexpr Operator kOperators[] = {
    {"ag_gemm", "AllGather+GEMM: every rank multiplies the rows of all ranks with its own B",
     ag_gemm_op::Layout::kRoles, run_ag_gemm},
    {"gemm_rs", "GEMM+ReduceScatter: the ranks sum their products and each keeps its own rows",
     gemm_rs_op::Layout::kRoles, run_gemm_rs},
    {"gemm_ar", "GEMM+AllReduce: the ranks sum their products and every rank gets the whole sum",
     gemm_ar_op::TwoShotLayout::kRoles, run_gemm_ar},
};

}  // namespace

std::span<const Operator> operators() { return kOperators; }

const Operator* find_operator(std::string_view name) {
  for (const Operator& one : kOperators) {
    if (name == one.name) return &one;
  }
  return nullptr;
}

std::string operator_names() {
  std::string names;
  for (const Operator& one : kOperators) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
  return names;
}

}  // namespace mk::tools
