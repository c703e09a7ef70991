// SPDX-License-Identifier: MIT
// tools/attention_backward_math.h — the steps of a reference of attention's gradients, in fp64, where the data lies.
//
// A step is for one head of one sequence; tensors are rows of it, [rows, dim].  Sums over pairs are those of
// bounded_math.h.  All pointers are memory of the device; every call has finished when it returns.
#pragma once

#include <memory>

#include "attention_backward_judge.h"
#include "attention_check.h"
#include "mkernel/types.h"
#include "runtime/device.h"

namespace mk::tools {

// Some rows of a shard, one after the other: positions grow with rows.
struct PlacedRows {
  Shard shard;
  int64_t first = 0;
  int64_t count = 0;

  MK_HD constexpr int64_t position_of(int64_t row) const { return shard.position_of(first + row); }
};

struct QueryRows {
  PlacedRows at;
  Tensor q;
  Tensor dout;
  const QueryNotes* notes = nullptr;  // of each
};

struct KeyRows {
  PlacedRows at;
  Tensor k;
  Tensor v;
};

// Which sums the factors of pairs are for: their errors grow with the number of terms.
enum class SumsOver { kKeys, kQueries };

// [queries, keys], zeros where a query does not see a key.
struct PairStep {
  QueryRows queries;
  KeyRows keys;
  SumsOver over = SumsOver::kKeys;
  Bounded* weights = nullptr;  // null: nobody wants them
  Bounded* gradients = nullptr;
};

// How many terms there are in a query's sum, or in a key's, over all the heads of its group.
MK_HD constexpr double terms_of_sum(const CheckedAttention& checked, SumsOver over, int64_t query, int64_t key) {
  const AttentionValues& values = checked.values;
  if (over == SumsOver::kKeys) {
    const KeyRange seen = checked.seen_keys(query);
    return static_cast<double>(seen.end - seen.first);
  }
  const KeyRange seeing = checked.queries_seeing(key);
  return static_cast<double>((seeing.end - seeing.first) * (values.heads / values.kv_heads));
}

// Nothing weighs less than no sink.
MK_HD inline double backward_sink(const CheckedAttention& checked, int64_t head) {
  return checked.sink == SinkUse::kGiven ? backward_sink_value(checked.values, head) : -INFINITY;
}

class AttentionBackwardMath {
 public:
  virtual ~AttentionBackwardMath() = default;

  // Row i is that of shard.position_of(i).
  virtual void fill(const Tensor& rows, AttentionTensor which, const AttentionValues& values, const Shard& shard,
                    int64_t batch, int64_t head) = 0;

  // backward_lse of all queries: q and k are those of the whole sequence.
  virtual void log_sums(const Tensor& q, const Tensor& k, const CheckedAttention& checked, int64_t head,
                        float* lse) = 0;

  // lse is by positions.
  virtual void note(const QueryRows& queries, const Tensor& o, const float* lse, const BackwardRule& rule,
                    QueryNotes* notes) = 0;

  virtual void pair(const PairStep& step, const CheckedAttention& checked, const BackwardRule& rule) = 0;

  // Judges every element of out; see backward_tolerance.
  virtual Tally judge(const Tensor& out, const SlotSum* sums, const BackwardRule& rule, double unit) = 0;
};

std::unique_ptr<AttentionBackwardMath> make_cpu_attention_backward_math();

// Only where a CUDA Device exists.
std::unique_ptr<AttentionBackwardMath> make_cuda_attention_backward_math(runtime::Device& device);

inline std::unique_ptr<AttentionBackwardMath> make_attention_backward_math(runtime::Device& device) {
  return device.kind() == DeviceKind::kCuda ? make_cuda_attention_backward_math(device)
                                            : make_cpu_attention_backward_math();
}

}  // namespace mk::tools
