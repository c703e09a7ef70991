// SPDX-License-Identifier: MIT
// tools/attention_check.h — fills inputs of attention and judges every element of its results, where the data lies.
//
// Inputs are made again for a check, those of other ranks too: a launch that spoils its inputs is found out as well.
// Every call has finished when it returns.
#pragma once

#include <memory>

#include "attention_judge.h"
#include "attention_values.h"
#include "mkernel/ring_attention.h"
#include "runtime/device.h"

namespace mk::tools {

enum class SinkUse { kNone, kGiven };

// What one rank had to compute in one launch.
struct CheckedAttention {
  AttentionValues values;
  Shard shard;
  MaskKind mask = MaskKind::kFull;
  float scale = 1;
  SinkUse sink = SinkUse::kNone;
  PackedSequences packed = {};

  // What the query at a position sees, and who sees the key at one.
  MK_HD constexpr KeyRange seen_keys(int64_t position) const {
    const KeyRange sequence = packed.of(position, values.seq);
    if (mask == MaskKind::kFull) return sequence;
    return {max_of(sequence.first, position - values.window + 1), position + 1};
  }
  MK_HD constexpr KeyRange queries_seeing(int64_t position) const {
    const KeyRange sequence = packed.of(position, values.seq);
    if (mask == MaskKind::kFull) return sequence;
    return {position, min_of(sequence.end - position, values.window) + position};
  }
};

class AttentionChecker {
 public:
  virtual ~AttentionChecker() = default;

  // Row i of a batch is at shard.position_of(i); the first batch is `first_batch`.
  virtual void fill(const HeadTensor& tensor, AttentionTensor which, const AttentionValues& values, const Shard& shard,
                    int64_t first_batch) = 0;

  // o and lse [batch, heads, rows] of the rank; see attention_judge.h.
  virtual AttentionTally check(const CheckedAttention& checked, const HeadTensor& o, const float* lse) = 0;

  // What a check takes of the device, for rows of so many queries.
  virtual double bytes(const AttentionSize& size, int64_t rows, DType dtype) const = 0;
};

std::unique_ptr<AttentionChecker> make_cpu_attention_checker();

// Only where a CUDA Device exists.
std::unique_ptr<AttentionChecker> make_cuda_attention_checker(runtime::Device& device);

inline std::unique_ptr<AttentionChecker> make_attention_checker(runtime::Device& device) {
  return device.kind() == DeviceKind::kCuda ? make_cuda_attention_checker(device) : make_cpu_attention_checker();
}

}  // namespace mk::tools
