// SPDX-License-Identifier: MIT
// ops/moe/moe_problem.cc — see moe_problem.h.
#include "ops/moe/moe_problem.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "ops/gemm/gemm_problem.h"
#include "ops/moe/moe_layout.h"

namespace mk::moe {

void check_alignment(const void* data, const char* name, int rank, uintptr_t alignment) {
  check_arg(reinterpret_cast<uintptr_t>(data) % alignment == 0,
            "{} of rank {} is at {}; its address must be a multiple of {} bytes", name, rank, data, alignment);
}

void check_problem(const Problem& problem, DeviceKind device) {
  const MoeShape& shape = problem.shape;
  constexpr int64_t kLargest = int64_t{1} << 31;
  const auto check_size = [](int64_t value, const char* name) {
    check_arg(value >= 1 && value < kLargest, "{} is {}; it must be at least 1 and below 2^31", name, value);
  };
  check_size(shape.hidden, "hidden");
  check_size(shape.n, "n");
  check_size(shape.max_tokens, "max_tokens");
  check_size(shape.max_rows, "max_rows");
  check_arg(shape.experts >= 1 && shape.experts % problem.world.size() == 0,
            "experts is {}; it must be a multiple of the world size {}", shape.experts, problem.world.size());
  check_arg(shape.topk >= 1 && shape.topk <= kMostSlots, "topk is {}; it must be 1 to {}", shape.topk, kMostSlots);
  check_arg(shape.topk <= shape.experts, "topk is {}; there are {} experts", shape.topk, shape.experts);
  const int64_t pairs = shape.max_tokens * shape.topk;
  check_arg(pairs < kLargest, "max_tokens is {}; times topk, {}, it must be below 2^31", shape.max_tokens, shape.topk);
  check_arg(pairs * problem.world.size() < 2 * kLargest,
            "max_tokens is {}; times topk, {}, times the world size, {}, it must be below 2^32", shape.max_tokens,
            shape.topk, problem.world.size());
  constexpr int64_t kMostElements = int64_t{1} << 56;  // of a window
  const int64_t most_rows = std::max(shape.max_rows, shape.max_tokens * problem.world.nodes);
  check_arg(most_rows <= kMostElements / shape.hidden && shape.max_rows <= kMostElements / shape.n,
            "max_tokens, max_rows, hidden and n are {}, {}, {} and {}; no tensor or window may have more than 2^56 "
            "elements",
            shape.max_tokens, shape.max_rows, shape.hidden, shape.n);
  check_arg(problem.dtype == DType::kBf16 || problem.dtype == DType::kFp16 || problem.dtype == DType::kFp32,
            "dtype is {}; it must be bf16, fp16 or fp32", static_cast<int>(problem.dtype));
  check_arg(problem.w_order == BOrder::kKN || problem.w_order == BOrder::kNK, "w_order is {}; it must be kKN or kNK",
            static_cast<int>(problem.w_order));
  check_arg(shape.overflow == MoeOverflow::kRefuse || shape.overflow == MoeOverflow::kDrop,
            "overflow is {}; it must be kRefuse or kDrop", static_cast<int>(shape.overflow));
  const int64_t shared_rows = shape.max_tokens * problem.shared;
  check_arg(shape.overflow == MoeOverflow::kRefuse || shared_rows <= shape.max_rows,
            "max_rows is {}; with kDrop it must be at least {}, max_tokens times shared, whose rows are never dropped",
            shape.max_rows, shared_rows);
  if (device != DeviceKind::kCuda) return;
  check_arg(shape.hidden % 8 == 0, "hidden is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)",
            shape.hidden);
  check_arg(shape.n % 8 == 0, "n is {}; on cuda it must be a multiple of 8 (16 bytes, for TMA)", shape.n);
  check_arg(problem.dtype != DType::kFp32, "dtype is fp32; on cuda it must be bf16 or fp16");
  check_arg(shape.experts <= kMostGpuExperts, "experts is {}; on cuda it must be at most {}", shape.experts,
            kMostGpuExperts);
}

Problem problem_of(const WorldShape& world, const runtime::Members& members, const MoeShape& shape,
                   std::span<const MoeDispatchGemmArgs> args) {
  check_arg(args.size() == static_cast<size_t>(members.count), "args has {} entries; {} ranks of the world are here",
            args.size(), members.count);
  return {world, shape, args[0].w.dtype, args[0].w_order};  // x may be empty
}

void check_tokens(const Problem& problem, int rank, const Tensor& x, const MoeIds& ids, const float* weights,
                  DeviceKind device) {
  const MoeShape& shape = problem.shape;
  check_arg(x.rows >= 0 && x.rows <= shape.max_tokens, "x of rank {} has {} rows; max_tokens is {}", rank, x.rows,
            shape.max_tokens);
  if (x.rows > 0) {
    gemm::check_tensor(x, "x", rank, x.rows, shape.hidden, problem.dtype, device);
    check_arg(ids.data != nullptr, "topk_idx of rank {} is a null pointer", rank);
  }
  check_arg(ids.type == MoeIds::Type::kInt32 || ids.type == MoeIds::Type::kInt64,
            "topk_idx of rank {} has type {}; it must be kInt32 or kInt64", rank, static_cast<int>(ids.type));
  check_alignment(ids.data, "topk_idx", rank, ids.type == MoeIds::Type::kInt32 ? 4 : 8);
  check_alignment(weights, "topk_weight", rank, 4);
}

void check_told(int rank, MoeOverflow overflow, const int32_t* load, const int32_t* routed_idx,
                const int32_t* dropped) {
  check_alignment(load, "load", rank, 4);
  check_alignment(routed_idx, "routed_idx", rank, 4);
  check_alignment(dropped, "dropped", rank, 4);
  const char* const name = routed_idx != nullptr ? "routed_idx" : dropped != nullptr ? "dropped" : nullptr;
  check_arg(name == nullptr || overflow == MoeOverflow::kDrop,
            "{} of rank {} is set; nothing is dropped unless `overflow` of the shape is kDrop", name, rank);
}

void check_args(const Problem& problem, const runtime::Members& members, std::span<const MoeDispatchGemmArgs> args,
                DeviceKind device) {
  const MoeShape& shape = problem.shape;
  const int64_t experts = problem.local_experts();
  const bool is_kn = problem.w_order == BOrder::kKN;
  for (size_t i = 0; i < args.size(); ++i) {
    const MoeDispatchGemmArgs& own = args[i];
    const int rank = members.first + static_cast<int>(i);
    check_tokens(problem, rank, own.x, own.topk_idx, own.topk_weight, device);
    check_alignment(own.origins, "origins", rank, device == DeviceKind::kCuda ? 16 : 4);
    check_alignment(own.expert_rows, "expert_rows", rank, 4);
    check_alignment(own.expert_ends, "expert_ends", rank, 4);
    check_told(rank, shape.overflow, own.load, own.routed_idx, own.dropped);
    check_arg(own.w_order == problem.w_order, "w_order of rank {} is {}; rank 0 has {} and all must agree", rank,
              name_of(own.w_order), name_of(problem.w_order));
    gemm::check_tensor(own.w, "w", rank, experts * (is_kn ? shape.hidden : shape.n), is_kn ? shape.n : shape.hidden,
                       problem.dtype, device);
    gemm::check_tensor(own.y, "y", rank, shape.max_rows, shape.n, problem.dtype, device);
    check_arg(device == DeviceKind::kCuda || own.stream == nullptr,
              "stream of rank {} is set; CPU worlds take null only", rank);
  }
}

int phase_tokens_of(const Problem& problem, DeviceKind device) {
  const MoeShape& shape = problem.shape;
  const WorldShape& world = problem.world;
  if (world.nodes == 1) return static_cast<int>(shape.max_tokens);
  // Rows of an expert in a phase.  With 512 an H200 multiplies for three times as long as it reads the weights.
  const int64_t rows = device == DeviceKind::kCuda ? 512 : 16;
  constexpr int64_t kMostPhases = 16;
  constexpr int64_t kMostCounts = 4096;  // of a rank: its experts in all phases
  const int64_t phases = std::max<int64_t>(1, std::min(kMostPhases, kMostCounts / shape.experts));
  const int64_t others = world.size() - world.ranks;
  const int64_t wanted = ceil_div<int64_t>(rows * shape.experts, shape.topk * others);
  return static_cast<int>(std::min(shape.max_tokens, std::max(wanted, ceil_div(shape.max_tokens, phases))));
}

const char* key_of(MoeOverflow overflow) { return overflow == MoeOverflow::kDrop ? " at most" : ""; }

std::string plan_key(const Problem& problem, const std::string& roles) {
  const MoeShape& shape = problem.shape;
  return fmt::format("moe_dispatch_gemm {} tokens {} rows{} {}x{} top {} of {} {} {}", shape.max_tokens, shape.max_rows,
                     key_of(shape.overflow), shape.hidden, shape.n, shape.topk, shape.experts, name_of(problem.dtype),
                     roles);
}

}  // namespace mk::moe
