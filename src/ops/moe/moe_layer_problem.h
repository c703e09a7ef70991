// SPDX-License-Identifier: MIT
// ops/moe/moe_layer_problem.h — the shape of a layer of experts, and the checks that both its passes make.
#pragma once

#include <string>

#include "base/check.h"
#include "mkernel/moe_layer.h"
#include "ops/gemm/gemm_problem.h"
#include "ops/moe/moe_problem.h"

namespace mk::moe {

struct LayerProblem {
  WorldShape world;
  MoeLayerShape shape;
  DType dtype = DType::kBf16;

  int local_experts() const { return shape.experts / world.size() + shape.shared; }
  // The dispatch of its tokens.  There shared experts are experts, and all tokens name them in slots of their own.
  Problem dispatch() const {
    Problem all{world, {}, dtype};
    all.shape = {shape.hidden,
                 shape.hidden,
                 shape.experts + shape.shared * world.size(),
                 shape.topk + shape.shared,
                 shape.max_tokens,
                 shape.max_rows,
                 shape.overflow};
    all.shared = shape.shared;
    return all;
  }
};

// Throws Error with the argument that is wrong.
void check_layer(const LayerProblem& problem, DeviceKind device);

// Args: of either pass.  check(own, rank) checks what only that pass has.
template <class Args, class Check>
void check_layer_args(const LayerProblem& problem, const runtime::Members& members, std::span<const Args> args,
                      DeviceKind device, Check&& check) {
  const MoeLayerShape& shape = problem.shape;
  const int64_t experts = problem.local_experts();
  for (size_t i = 0; i < args.size(); ++i) {
    const Args& own = args[i];
    const int rank = members.first + static_cast<int>(i);
    check_tokens(problem.dispatch(), rank, own.x, own.topk_idx, own.topk_weight, device);
    gemm::check_tensor(own.w13, "w13", rank, experts * 2 * shape.inter, shape.hidden, problem.dtype, device);
    gemm::check_tensor(own.w2, "w2", rank, experts * shape.hidden, shape.inter, problem.dtype, device);
    check(own, rank);
    check_arg(device == DeviceKind::kCuda || own.stream == nullptr,
              "stream of rank {} is set; CPU worlds take null only", rank);
  }
}

// The problem that the arguments pose, checked.
template <class Args, class Check>
LayerProblem layer_problem_of(const WorldShape& world, const runtime::Members& members, const MoeLayerShape& shape,
                              std::span<const Args> args, DeviceKind device, Check&& check) {
  check_arg(args.size() == static_cast<size_t>(members.count), "args has {} entries; {} ranks of the world are here",
            args.size(), members.count);
  const LayerProblem asked{world, shape, args[0].w2.dtype};  // x may be empty
  check_layer(asked, device);
  check_layer_args(asked, members, args, device, [&](const Args& own, int rank) { check(asked, own, rank); });
  return asked;
}

std::string plan_key(const char* op, const LayerProblem& problem, const std::string& roles);

}  // namespace mk::moe
