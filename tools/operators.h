// SPDX-License-Identifier: MIT
// tools/operators.h — the operators the program can run: a file each, and a row of one table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/roles.h"
#include "mkernel/world.h"
#include "report.h"
#include "request.h"

namespace mk::tools {

struct Operator {
  const char* name;
  const char* summary;              // one line
  std::span<const RoleName> roles;  // its table

  // Runs request.launches launches in a new World and checks all of them.
  Row (*run)(World& world, const RunRequest& request);

  std::span<const RoleName> backward_roles = {};  // of its backward pass; empty: it has none

  bool has_backward() const { return !backward_roles.empty(); }
  std::span<const RoleName> roles_of(Direction direction) const {
    return direction == Direction::kForward ? roles : backward_roles;
  }
};

std::span<const Operator> operators();
const Operator* find_operator(std::string_view name);  // null if there is none
std::string operator_names();                          // "ag_gemm, …"
std::string backward_operator_names();                 // of those with a backward pass

// Those with M, N and K, which `fuzz` and `sim` know.
bool is_gemm_operator(std::string_view name);
std::string gemm_operator_names();

Row run_ag_gemm(World& world, const RunRequest& request);
Row run_gemm_ar(World& world, const RunRequest& request);
Row run_gemm_rs(World& world, const RunRequest& request);
Row run_moe_dispatch_gemm(World& world, const RunRequest& request);
Row run_moe_layer(World& world, const RunRequest& request);  // in the direction that the request asks for
Row run_moe_layer_backward(World& world, const RunRequest& request);
Row run_ring_attention(World& world, const RunRequest& request);  // likewise
Row run_ring_attention_backward(World& world, const RunRequest& request);

}  // namespace mk::tools
