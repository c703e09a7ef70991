// SPDX-License-Identifier: MIT
// mkernel/types.h — the small types every call speaks: element types, devices, tensor views, streams.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mk {

enum class DType { kBf16, kFp16, kFp32 };

// Where the ranks of a World run.  kAuto takes a Hopper GPU if there is one, else CPU threads.
enum class DeviceKind { kAuto, kCpu, kCuda };

// How the right operand of a GEMM lies: as [K,N] or as [N,K] (the way a linear layer keeps its weight).
enum class BOrder { kKN, kNK };

// What is applied to a sum, after the bias: GELU is the one with erf, SiLU is x / (1 + exp(-x)).
enum class Activation { kNone, kGelu, kSilu };

constexpr int64_t size_of(DType dtype) { return dtype == DType::kFp32 ? 4 : 2; }
constexpr const char* name_of(DType dtype) {
  return dtype == DType::kBf16 ? "bf16" : dtype == DType::kFp16 ? "fp16" : "fp32";
}
constexpr const char* name_of(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? "cpu" : kind == DeviceKind::kCuda ? "cuda" : "auto";
}

constexpr const char* name_of(BOrder order) {
  return order == BOrder::kKN ? "[K,N]" : order == BOrder::kNK ? "[N,K]" : "unknown";
}
constexpr const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::kNone: return "none";
    case Activation::kGelu: return "GELU";
    case Activation::kSilu: return "SiLU";
  }
  return "unknown";
}

// A row-major matrix somebody else owns; rows follow each other without gaps.  The memory must stay
// valid until the launch that uses it has finished.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kBf16;
  int64_t rows = 0;
  int64_t cols = 0;
};

// A cudaStream_t on a GPU (it converts by itself).  Null, and cudaStreamLegacy, are CUDA's default stream, as
// everywhere in CUDA: the launch comes after everything the default stream holds, and everything the default stream
// gets later comes after the launch.  The kernel itself runs on the World's own stream of the rank, which events tie to
// the default stream, so launches of several ranks of one process run side by side.  World::rank_stream is that stream
// without the tie: a launch there is ordered with the rank's other launches only.  The default stream cannot be
// captured: while the rank's own stream is being captured (World::fork), a null stream means that stream.  A program
// that nvcc compiled with --default-stream per-thread passes cudaStreamPerThread.
// CPU worlds take null only: each rank has one queue.
using Stream = void*;

}  // namespace mk
