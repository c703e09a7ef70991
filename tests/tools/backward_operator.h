// SPDX-License-Identifier: MIT
// tests/tools/backward_operator.h — the gradients of attention that one rank of a small world gets, as an operator in
// fp32 makes them, with a mistake or without.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/host_device.h"
#include "tests/support/matrix.h"
#include "tools/attention_backward_checker.h"

namespace mk::test {

// How an operator may go about it.
enum class BackwardWay {
  kPlain,
  kPowersOfTwo,    // exp2, and lse changed to powers of two before
  kScaledQueries,  // queries are multiplied with the scale before anything else
  kBlocks,         // sums of 16 terms are made apart, the last block first
};

struct BackwardPair {
  int64_t seq, query, key, head;
  int64_t from;  // the query's first key
  bool sees;
};

// What may go wrong.  The two functions say how often a pair counts.
struct BackwardMistake {
  const char* name = "none";
  std::string shows_in = "";  // q, k, v and s: dq, dk, dv and dsink
  bool shows_in_uniform_data = true;
  bool shows_in_exact_data = true;
  int (*in_dq)(const BackwardPair&) = [](const BackwardPair& at) { return at.sees ? 1 : 0; };
  int (*in_dk)(const BackwardPair&) = [](const BackwardPair& at) { return at.sees ? 1 : 0; };
  float deltas = 1;           // of what it should be
  float scale_of_dq = 1;      // likewise
  float scale_of_dk = 1;      // likewise
  float scale_of_scores = 1;  // likewise
  float sinks = 1;            // likewise, of dsink
  int64_t deltas_on = 0;      // rows
  int64_t lse_on = 0;         // rows
  int64_t heads_on = 0;       // of keys
  int64_t values_on = 0;      // rows
  int64_t sink_rows_lost = 0;
  int64_t launches_ago = 0;  // of dout
  int64_t batches_on = 0;
  bool weighs_outputs = false;  // dv of o, not of its gradients
};

struct BackwardCase {
  const char* name = "";
  int64_t seq = 1;
  int ranks = 1;
  int64_t dim = 1;
  DType dtype = DType::kBf16;
  AttentionMask mask = {};
  SequenceOrder order = SequenceOrder::kContiguous;
  int64_t heads = 4, kv_heads = 2, batches = 1;
  std::optional<float> scale = {};
};
inline void PrintTo(const BackwardCase& at, std::ostream* out) { *out << at.name; }

class BackwardOperator {
 public:
  BackwardOperator(const BackwardCase& at, int rank, uint64_t seed, uint64_t launch);

  void run(const BackwardMistake& mistake = {}, BackwardWay way = BackwardWay::kPlain);

  tools::BackwardTally check();

  Matrix& dq() { return dq_; }
  Matrix& dk() { return dk_; }
  Matrix& dv() { return dv_; }
  std::vector<float>& dsink() { return dsink_; }
  const tools::AttentionValues& values() const { return checked_.values; }

 private:
  struct Sequence {
    std::vector<float> q, k, v, o, dout;  // [seq, heads, dim]
  };
  // Of all positions; sums of a block are apart until it is full.
  struct Sums {
    std::vector<float> whole, block;

    void clear(size_t size);
    void flush(size_t first, size_t count);
  };
  struct Query {
    int64_t batch, head, position;
  };

  std::vector<float> made(tools::AttentionTensor which, int64_t heads, uint64_t launch, int64_t batch);
  float rounded(float value) const;
  void make_sequence(const BackwardMistake& mistake, int64_t batch);
  void add_query(const BackwardMistake& mistake, BackwardWay way, const Query& at);
  void add_pair(const BackwardMistake& mistake, BackwardWay way, const Query& at, const BackwardPair& pair);
  void add_sink(const BackwardMistake& mistake, const Query& at);
  void write(const BackwardMistake& mistake, BackwardWay way, int64_t batch);
  float dot(const std::vector<float>& a, int64_t at_a, const std::vector<float>& b, int64_t at_b,
            float factor = 1) const;
  float delta_of(const BackwardMistake& mistake, const Query& at) const;
  float lse_of(const Query& at, int64_t rows_on) const;
  int64_t query_offset(int64_t position, int64_t head) const { return (position * at_.heads + head) * at_.dim; }
  int64_t key_offset(int64_t position, int64_t head) const { return (position * at_.kv_heads + head) * at_.dim; }

  BackwardCase at_;
  float scale_;
  tools::AttentionSize size_;
  uint64_t seed_, launch_;
  tools::CheckedAttention checked_;
  runtime::HostDevice device_{1};
  std::unique_ptr<tools::AttentionChecker> filler_ = tools::make_cpu_attention_checker();
  tools::AttentionBackwardChecker checker_;
  std::vector<float> log_sums_;  // [batch, heads, seq]
  Sequence sequence_;
  Sums dq_sums_, dk_sums_, dv_sums_;
  Matrix dq_, dk_, dv_;
  std::vector<float> dsink_;
};

}  // namespace mk::test
