// SPDX-License-Identifier: MIT
// ops/attention/ring_attention_problem.cc — see ring_attention_problem.h.
#include "ops/attention/ring_attention_problem.h"

#include <fmt/ranges.h>

#include <cmath>

#include "base/check.h"
#include "ops/attention/attention_positions.h"
#include "ops/attention/head_strides.h"
#include "ops/attention/ring_attention_sm90.h"

namespace mk::attention {
namespace {

void check_tensor(const HeadTensor& tensor, const char* name, int rank, const RingAttentionShape& shape, int64_t heads,
                  DeviceKind device) {
  check_arg(tensor.data != nullptr, "{} of rank {} is a null pointer", name, rank);
  check_arg(
      tensor.batch == shape.batch && tensor.rows == shape.rows && tensor.heads == heads && tensor.dim == shape.dim,
      "{} of rank {} is {}x{}x{}x{}; it must be {}x{}x{}x{} (batch, rows, heads, dim)", name, rank, tensor.batch,
      tensor.rows, tensor.heads, tensor.dim, shape.batch, shape.rows, heads, shape.dim);
  check_arg(tensor.dtype == shape.dtype, "{} of rank {} is {}; all tensors must be {}, as q of rank 0", name, rank,
            name_of(tensor.dtype), name_of(shape.dtype));
  const uintptr_t alignment = device == DeviceKind::kCuda ? 16 : size_of(shape.dtype);
  check_arg(reinterpret_cast<uintptr_t>(tensor.data) % alignment == 0,
            "{} of rank {} is at {}; its address must be a multiple of {} bytes", name, rank, tensor.data, alignment);
  check_strides(tensor, name, rank, device);
}

void check_floats(const void* data, const char* name, int rank) {
  check_arg(reinterpret_cast<uintptr_t>(data) % alignof(float) == 0,
            "{} of rank {} is at {}; its address must be a multiple of 4 bytes", name, rank, data);
}

void check_packing(const Problem& problem) {
  const std::vector<int32_t>& ends = problem.cu_seqlens;
  const int64_t total = problem.shape.rows * problem.world.size();
  check_arg(problem.shape.batch == 1, "batch is {}; packed sequences have a batch of 1", problem.shape.batch);
  check_arg(ends.size() >= 2, "cu_seqlens has {} entries; it must have one more than there are sequences", ends.size());
  check_arg(ends[0] == 0, "cu_seqlens[0] is {}; it must be 0", ends[0]);
  for (size_t i = 1; i < ends.size(); ++i) {
    check_arg(ends[i] > ends[i - 1], "cu_seqlens[{}] is {}; it must be above cu_seqlens[{}], {}", i, ends[i], i - 1,
              ends[i - 1]);
  }
  check_arg(ends.back() == total, "cu_seqlens ends at {}; it must end at {}: {} rows of each of {} ranks", ends.back(),
            total, problem.shape.rows, problem.world.size());
}

}  // namespace

float Problem::scale_of_scores() const {
  return scale.value_or(static_cast<float>(1 / std::sqrt(static_cast<double>(shape.dim))));
}

void check_problem(const Problem& problem, DeviceKind device) {
  const RingAttentionShape& shape = problem.shape;
  constexpr int64_t kLargest = int64_t{1} << 31;
  const auto check_size = [](int64_t value, const char* name) {
    check_arg(value >= 1 && value < kLargest, "{} is {}; it must be at least 1 and below 2^31", name, value);
  };
  check_size(shape.batch, "batch");
  check_size(shape.rows, "rows");
  check_size(shape.heads, "heads");
  check_size(shape.kv_heads, "kv_heads");
  check_size(shape.dim, "dim");
  check_arg(shape.heads % shape.kv_heads == 0, "heads is {}; it must be a multiple of kv_heads, {}", shape.heads,
            shape.kv_heads);
  constexpr int64_t kMostElements = int64_t{1} << 48;  // of a tensor of the world
  const int64_t token = shape.heads * shape.dim;       // below 2^62
  check_arg(token <= kMostElements && shape.rows * problem.world.size() <= kMostElements / token / shape.batch,
            "batch, rows, heads and dim are {}, {}, {} and {}; all ranks together may have 2^48 elements of q",
            shape.batch, shape.rows, shape.heads, shape.dim);
  check_arg(shape.batch * shape.rows < kLargest / 2, "batch is {}; times rows, {}, it must be below 2^30", shape.batch,
            shape.rows);
  check_arg(shape.batch * shape.heads * shape.rows < kLargest,
            "heads is {}; times batch, {}, and rows, {}, it must be below 2^31", shape.heads, shape.batch, shape.rows);
  check_arg(shape.dtype == DType::kBf16 || shape.dtype == DType::kFp16 || shape.dtype == DType::kFp32,
            "dtype is {}; it must be bf16, fp16 or fp32", static_cast<int>(shape.dtype));
  check_arg(problem.mask.kind == MaskKind::kFull || problem.mask.kind == MaskKind::kCausal,
            "mask.kind is {}; it must be kFull or kCausal", static_cast<int>(problem.mask.kind));
  if (problem.mask.window.has_value()) {
    check_arg(problem.mask.kind == MaskKind::kCausal, "mask.window is {}; only a causal mask may have a window",
              *problem.mask.window);
    check_arg(*problem.mask.window >= 1, "mask.window is {}; it must be at least 1", *problem.mask.window);
  }
  check_arg(problem.order == SequenceOrder::kContiguous || problem.order == SequenceOrder::kZigzag,
            "order is {}; it must be kContiguous or kZigzag", static_cast<int>(problem.order));
  check_arg(shape.rows % pieces_of(problem.order) == 0, "rows is {}; with order kZigzag it must be a multiple of 2",
            shape.rows);
  if (!problem.cu_seqlens.empty()) check_packing(problem);
  if (problem.scale.has_value()) {
    check_arg(std::isfinite(*problem.scale) && *problem.scale > 0, "scale is {}; it must be finite and above 0",
              *problem.scale);
  }
  if (device != DeviceKind::kCuda) return;
  check_arg(has_gpu_tile(shape.dim), "dim is {}; on cuda it must be 64, 128 or 256", shape.dim);
  check_arg(shape.dtype != DType::kFp32, "dtype is fp32; on cuda it must be bf16 or fp16");
  constexpr int64_t kMostPositions = int64_t{1} << 28;
  check_arg(shape.rows * problem.world.size() < kMostPositions,
            "rows is {}; on cuda all ranks together must have less than 2^28", shape.rows);
}

namespace {

template <class Args>
Problem problem_of_first(const WorldShape& world, const runtime::Members& members, std::span<const Args> args,
                         const RingAttentionOptions& options) {
  check_arg(args.size() == static_cast<size_t>(members.count), "args has {} entries; {} ranks of the world are here",
            args.size(), members.count);
  const HeadTensor& q = args[0].q;
  return {world,         {q.batch, q.rows, q.heads, args[0].k.heads, q.dim, q.dtype}, options.mask, options.order,
          options.scale, {options.cu_seqlens.begin(), options.cu_seqlens.end()}};
}

void check_stream(Stream stream, int rank, DeviceKind device) {
  check_arg(device == DeviceKind::kCuda || stream == nullptr, "stream of rank {} is set; CPU worlds take null only",
            rank);
}

}  // namespace

Problem problem_of(const WorldShape& world, const runtime::Members& members, std::span<const RingAttentionArgs> args,
                   const RingAttentionOptions& options) {
  return problem_of_first(world, members, args, options);
}

Problem problem_of(const WorldShape& world, const runtime::Members& members,
                   std::span<const RingAttentionBackwardArgs> args, const RingAttentionOptions& options) {
  return problem_of_first(world, members, args, options);
}

void check_args(const Problem& problem, const runtime::Members& members, std::span<const RingAttentionArgs> args,
                DeviceKind device) {
  const RingAttentionShape& shape = problem.shape;
  for (size_t i = 0; i < args.size(); ++i) {
    const RingAttentionArgs& own = args[i];
    const int rank = members.first + static_cast<int>(i);
    check_tensor(own.q, "q", rank, shape, shape.heads, device);
    check_tensor(own.k, "k", rank, shape, shape.kv_heads, device);
    check_tensor(own.v, "v", rank, shape, shape.kv_heads, device);
    check_tensor(own.o, "o", rank, shape, shape.heads, device);
    check_floats(own.lse, "lse", rank);
    check_floats(own.sink, "sink", rank);
    check_stream(own.stream, rank, device);
  }
}

void check_args(const Problem& problem, const runtime::Members& members,
                std::span<const RingAttentionBackwardArgs> args, DeviceKind device) {
  const RingAttentionShape& shape = problem.shape;
  for (size_t i = 0; i < args.size(); ++i) {
    const RingAttentionBackwardArgs& own = args[i];
    const int rank = members.first + static_cast<int>(i);
    check_tensor(own.q, "q", rank, shape, shape.heads, device);
    check_tensor(own.k, "k", rank, shape, shape.kv_heads, device);
    check_tensor(own.v, "v", rank, shape, shape.kv_heads, device);
    check_tensor(own.o, "o", rank, shape, shape.heads, device);
    check_tensor(own.dout, "dout", rank, shape, shape.heads, device);
    check_arg(own.lse != nullptr, "lse of rank {} is a null pointer", rank);
    check_floats(own.lse, "lse", rank);
    check_floats(own.sink, "sink", rank);
    check_tensor(own.dq, "dq", rank, shape, shape.heads, device);
    check_tensor(own.dk, "dk", rank, shape, shape.kv_heads, device);
    check_tensor(own.dv, "dv", rank, shape, shape.kv_heads, device);
    check_floats(own.dsink, "dsink", rank);
    check_arg(own.dsink == nullptr || own.sink != nullptr, "dsink of rank {} is set; it needs a sink", rank);
    check_stream(own.stream, rank, device);
  }
}

std::string plan_key(const Problem& problem, const std::string& roles) {
  const RingAttentionShape& shape = problem.shape;
  std::string key =
      fmt::format("ring_attention {}x{} heads {}:{}x{} {} {} window {} {} scale {} {}", shape.batch, shape.rows,
                  shape.heads, shape.kv_heads, shape.dim, name_of(shape.dtype), name_of(problem.mask.kind),
                  problem.mask.window.value_or(0), name_of(problem.order), problem.scale_of_scores(), roles);
  if (!problem.cu_seqlens.empty()) key += fmt::format(" packed {}", fmt::join(problem.cu_seqlens, ","));
  return key;
}

}  // namespace mk::attention
