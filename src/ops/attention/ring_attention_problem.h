// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_problem.h — what is to be computed, and what is refused.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/world_shape.h"
#include "mkernel/ring_attention.h"
#include "mkernel/ring_attention_backward.h"
#include "runtime/members.h"

namespace mk::attention {

struct Problem {
  WorldShape world;
  RingAttentionShape shape;
  AttentionMask mask = {};
  SequenceOrder order = SequenceOrder::kContiguous;
  std::optional<float> scale = {};
  std::vector<int32_t> cu_seqlens = {};  // of packed sequences

  float scale_of_scores() const;
};

// Throws Error(kInvalidArgument) naming the argument.
void check_problem(const Problem& problem, DeviceKind device);
Problem problem_of(const WorldShape& world, const runtime::Members& members, std::span<const RingAttentionArgs> args,
                   const RingAttentionOptions& options);
Problem problem_of(const WorldShape& world, const runtime::Members& members,
                   std::span<const RingAttentionBackwardArgs> args, const RingAttentionOptions& options);
void check_args(const Problem& problem, const runtime::Members& members, std::span<const RingAttentionArgs> args,
                DeviceKind device);
void check_args(const Problem& problem, const runtime::Members& members,
                std::span<const RingAttentionBackwardArgs> args, DeviceKind device);

// What a plan's layout follows from; `roles` in words.
std::string plan_key(const Problem& problem, const std::string& roles);

}  // namespace mk::attention
