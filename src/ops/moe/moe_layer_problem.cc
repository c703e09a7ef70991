// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_problem.cc — see moe_layer_problem.h.
#include "ops/moe/moe_layer_problem.h"

#include "ops/moe/moe_layer_layout.h"

namespace mk::moe {

void check_layer(const LayerProblem& problem, DeviceKind device) {
  const MoeLayerShape& shape = problem.shape;
  check_arg(shape.inter >= 1 && shape.inter < int64_t{1} << 30, "inter is {}; it must be at least 1 and below 2^30",
            shape.inter);
  check_arg(shape.activation_clamp >= 0, "activation_clamp is {}; it must be positive, or 0: none",
            shape.activation_clamp);
  LayerProblem unshared = problem;
  unshared.shape.shared = 0;
  check_problem(unshared.dispatch(), device);
  check_arg(shape.shared >= 0 && shape.topk + shape.shared <= kMostSlots,
            "shared is {}; it must be at least 0 and, with topk, {}, at most {}", shape.shared, shape.topk, kMostSlots);
  const Problem dispatch = problem.dispatch();
  check_arg(device != DeviceKind::kCuda || dispatch.shape.experts <= kMostGpuExperts,
            "shared is {}; on cuda all ranks together must have at most {} experts, and there would be {}",
            shape.shared, kMostGpuExperts, dispatch.shape.experts);
  check_problem(dispatch, device);
  constexpr int64_t kMostElements = int64_t{1} << 56;  // of a window
  const int64_t returned = shape.max_tokens * dispatch.shape.topk * problem.world.nodes;
  check_arg(shape.max_rows <= kMostElements / shape.inter && returned <= kMostElements / shape.hidden,
            "max_tokens, max_rows, hidden and inter are {}, {}, {} and {}; no window may have more than 2^56 elements",
            shape.max_tokens, shape.max_rows, shape.hidden, shape.inter);
  if (device != DeviceKind::kCuda) return;
  check_arg(shape.inter % 8 == 0, "inter is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", shape.inter);
  const int addends = dispatch.shape.topk + problem.world.nodes - 1;
  check_arg(addends <= kMostGpuAddends,
            "topk and shared are {} and {} in a world of {} nodes; on cuda a token may have {} addends", shape.topk,
            shape.shared, problem.world.nodes, kMostGpuAddends);
}

std::string plan_key(const char* op, const LayerProblem& problem, const std::string& roles) {
  const MoeLayerShape& shape = problem.shape;
  return fmt::format("{} {} tokens {} rows{} {}x{} top {} of {} shared {} clamp {} {} {}", op, shape.max_tokens,
                     shape.max_rows, key_of(shape.overflow), shape.hidden, shape.inter, shape.topk, shape.experts,
                     shape.shared, shape.activation_clamp, name_of(problem.dtype), roles);
}

}  // namespace mk::moe
