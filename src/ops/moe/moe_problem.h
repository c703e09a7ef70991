// SPDX-License-Identifier: MIT
// ops/moe/moe_problem.h — the shape of a mixture of experts, and its checks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/world_shape.h"
#include "mkernel/moe.h"
#include "mkernel/types.h"
#include "runtime/members.h"

namespace mk::moe {

struct Problem {
  WorldShape world;
  MoeShape shape;
  DType dtype = DType::kBf16;
  BOrder w_order = BOrder::kKN;
  int shared = 0;  // of shape.topk and of each rank's experts, the last: see moe_layout.h

  int local_experts() const { return shape.experts / world.size(); }
};

// Throws Error with the argument that is wrong.
void check_problem(const Problem& problem, DeviceKind device);
Problem problem_of(const WorldShape& world, const runtime::Members& members, const MoeShape& shape,
                   std::span<const MoeDispatchGemmArgs> args);
// Of an argument of a rank.  Null is fine.
void check_alignment(const void* data, const char* name, int rank, uintptr_t alignment);
// What a launch tells of its routing.
void check_told(int rank, MoeOverflow overflow, const int32_t* load, const int32_t* routed_idx, const int32_t* dropped);
// What a rank brings to be routed.
void check_tokens(const Problem& problem, int rank, const Tensor& x, const MoeIds& ids, const float* weights,
                  DeviceKind device);
void check_args(const Problem& problem, const runtime::Members& members, std::span<const MoeDispatchGemmArgs> args,
                DeviceKind device);

// Tokens of a phase (moe_layout.h): as few as make products of a phase worth while, whose weights are read once more.
// It does not hang on the split or on tiles: rows have the same order in all passes of a layer.
int phase_tokens_of(const Problem& problem, DeviceKind device);

// What plans of either kind are told apart by.
const char* key_of(MoeOverflow overflow);
std::string plan_key(const Problem& problem, const std::string& roles);

}  // namespace mk::moe
