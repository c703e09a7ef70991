// SPDX-License-Identifier: MIT
// tools/attention_backward_checker.h — checks every gradient that a launch of attention's backward pass left on a rank.
//
// Inputs are made again from their seeds, those of other ranks too, head by head.  Gradients of queries are sums over
// the keys of all ranks, those of keys and values over the queries of all ranks: some rows with some rows at a time.
#pragma once

#include <memory>
#include <vector>

#include "attention_backward_math.h"
#include "bounded_math.h"
#include "matrix_memory.h"

namespace mk::tools {

// What one rank has: more rows may follow those that are checked.
struct BackwardResults {
  HeadTensor dq;
  HeadTensor dk;
  HeadTensor dv;
  const float* dsink = nullptr;  // null: nobody asked for it
};

class AttentionBackwardChecker {
 public:
  // For ranks of so many rows.
  AttentionBackwardChecker(runtime::Device& device, const AttentionSize& size, int64_t rows, DType dtype);
  static double bytes(DeviceKind device, const AttentionSize& size, int64_t rows, DType dtype);

  // The lse that launches get: [batch, heads, seq], by positions.  `checked` may be of any rank.
  std::vector<float> log_sums(const CheckedAttention& checked);

  // `log_sums` as above.
  BackwardTally check(const CheckedAttention& checked, const std::vector<float>& log_sums,
                      const BackwardResults& results);

 private:
  // Rows of a head, those of the whole sequence or of a rank.
  struct HeadInputs {
    HeadInputs(runtime::Device& device, int64_t rows, int64_t dim, DType dtype);
    static double bytes(int64_t rows, int64_t dim, DType dtype);

    PlacedRows rows(int64_t first, int64_t count) const { return {shard, first, count}; }
    QueryRows queries(int64_t first, int64_t count) const;
    KeyRows keys(int64_t first, int64_t count) const;

    Shard shard;
    Matrix q, k, v, o, dout;
    runtime::Buffer notes;
  };

  void fill_keys(HeadInputs& inputs, const CheckedAttention& checked, int64_t batch, int64_t kv_head);
  void fill_queries(HeadInputs& inputs, const CheckedAttention& checked, const BackwardRule& rule, int64_t batch,
                    int64_t head);
  // Sums of one head's pairs go to the rows of the rank.
  void add_query_sums(const CheckedAttention& checked, const BackwardRule& rule, int64_t head);
  void add_key_sums(const CheckedAttention& checked, const BackwardRule& rule, int64_t kv_head);
  void add_product(const runtime::Buffer& factors, Stored stored, int64_t rows, const Tensor& right,
                   const std::vector<Target>& targets, const runtime::Buffer& sums);
  void judge(const BackwardRule& rule, const AttentionValues& values, const BackwardResults& results, int64_t batch,
             BackwardTally& tally);
  void add_sink_parts(const CheckedAttention& checked, int64_t head, std::vector<Bounded>& sinks);

  runtime::Device& device_;
  const std::unique_ptr<AttentionBackwardMath> math_;
  const std::unique_ptr<BoundedMath> products_;
  const AttentionSize size_;
  const int64_t rows_;
  const DType dtype_;
  const int64_t at_once_;  // rows
  HeadInputs all_, own_;
  const runtime::Buffer lse_;                  // of a head, by positions
  const runtime::Buffer weights_, gradients_;  // of pairs
  const runtime::Buffer results_;              // of some rows
  const runtime::Buffer dq_, dk_, dv_;         // sums of a sequence
};

}  // namespace mk::tools
