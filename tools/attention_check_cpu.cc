// SPDX-License-Identifier: MIT
// tools/attention_check_cpu.cc — attention by positions in fp64, on all threads of this machine.
#include <cmath>
#include <mutex>
#include <vector>

#include "attention_check.h"
#include "base/half.h"
#include "host_loops.h"

namespace mk::tools {
namespace {

// Of the whole sequence, in the order of positions.
struct SequenceOfHead {
  std::vector<float> keys;    // [dim, seq]: the loop over keys is the inner one
  std::vector<float> values;  // [seq, dim]
};

template <class T>
float rounded_value(const AttentionValues& values, AttentionTensor tensor, int64_t batch, int64_t position,
                    int64_t head, int64_t element) {
  return to_float(from_float<T>(attention_value(values, tensor, batch, position, head, element)));
}

template <class T>
SequenceOfHead sequence_of(const AttentionValues& values, int64_t batch, int64_t kv_head) {
  SequenceOfHead sequence;
  sequence.keys.resize(values.seq * values.dim);
  sequence.values.resize(values.seq * values.dim);
  in_parallel(values.seq, values.dim, [&](int64_t first, int64_t last) {
    for (int64_t at = first; at < last; ++at) {
      for (int64_t d = 0; d < values.dim; ++d) {
        const auto made = [&](AttentionTensor tensor) {
          return rounded_value<T>(values, tensor, batch, at, kv_head, d);
        };
        sequence.keys[d * values.seq + at] = made(AttentionTensor::kKeys);
        sequence.values[at * values.dim + d] = made(AttentionTensor::kValues);
      }
    }
  });
  return sequence;
}

// One query at a time.
class QueryMath {
 public:
  QueryMath(const CheckedAttention& checked, const AttentionRule& rule) : checked_(checked), rule_(rule) {}

  template <class T>
  void attend(const SequenceOfHead& sequence, int64_t batch, int64_t position, int64_t head) {
    const AttentionValues& values = checked_.values;
    const KeyRange seen = checked_.seen_keys(position);
    const int64_t count = seen.end - seen.first;
    scores_.assign(count, 0.0);
    double elements = 0;
    for (int64_t d = 0; d < values.dim; ++d) {
      const double q = rounded_value<T>(values, AttentionTensor::kQueries, batch, position, head, d);
      if (q == 0) continue;
      elements += std::fabs(q);
      const float* const keys = sequence.keys.data() + d * values.seq + seen.first;
      for (int64_t i = 0; i < count; ++i) scores_[i] += q * static_cast<double>(keys[i]);
    }
    sums_ = {.seen = static_cast<double>(count), .magnitudes = score_magnitude(rule_, elements)};
    take_weights(head);
    add_values(sequence, seen.first);
  }

  void judge(const double* o, double lse, AttentionTally& tally) const {
    for (int64_t d = 0; d < checked_.values.dim; ++d) {
      const double ref = results_[d] / sums_.sum;
      tally.o.judge(o[d], ref, o_tolerance(rule_, sums_, ref, magnitudes_[d] / sums_.sum));
    }
    tally.lse.judge(lse, lse_of(sums_), lse_tolerance(rule_, sums_));
  }

 private:
  void take_weights(int64_t head) {
    const bool has_sink = checked_.sink == SinkUse::kGiven;
    const double sink = has_sink ? sink_value(checked_.values, head) : -INFINITY;
    sums_.maximum = sink;
    for (double& score : scores_) {
      score *= checked_.scale;
      sums_.maximum = std::fmax(sums_.maximum, score);
    }
    const auto weigh = [this](double score) {
      const double below = score - sums_.maximum;
      const double weight = std::exp(below);
      sums_.sum += weight;
      sums_.counted += counts(below) ? 1 : 0;
      return weight;
    };
    for (double& score : scores_) score = weigh(score);
    if (!has_sink) return;
    weigh(sink);
    if (counts(sink - sums_.maximum)) sums_.magnitudes = std::fmax(sums_.magnitudes, std::fabs(sink));
  }

  void add_values(const SequenceOfHead& sequence, int64_t first) {
    const int64_t dim = checked_.values.dim;
    results_.assign(dim, 0.0);
    magnitudes_.assign(dim, 0.0);
    for (size_t i = 0; i < scores_.size(); ++i) {
      const double weight = scores_[i];
      if (weight == 0) continue;
      const float* const values = sequence.values.data() + (first + static_cast<int64_t>(i)) * dim;
      for (int64_t d = 0; d < dim; ++d) {
        const double part = weight * static_cast<double>(values[d]);
        results_[d] += part;
        magnitudes_[d] += std::fabs(part);
      }
    }
  }

  const CheckedAttention& checked_;
  const AttentionRule& rule_;
  SoftmaxSums sums_;
  std::vector<double> scores_;  // then weights
  std::vector<double> results_, magnitudes_;
};

template <class T>
AttentionTally check_typed(const CheckedAttention& checked, const HeadTensor& o, const float* lse) {
  const AttentionValues& values = checked.values;
  const AttentionRule rule = attention_rule(values, o.dtype, checked.scale);
  const int64_t group = values.heads / values.kv_heads;
  std::mutex mutex;
  AttentionTally total;
  for (int64_t batch = 0; batch < o.batch; ++batch) {
    for (int64_t kv_head = 0; kv_head < values.kv_heads; ++kv_head) {
      const SequenceOfHead sequence = sequence_of<T>(values, batch, kv_head);
      in_parallel(group * o.rows, values.seq * values.dim, [&](int64_t first, int64_t last) {
        QueryMath query(checked, rule);
        AttentionTally tally;
        std::vector<double> seen(o.dim);
        for (int64_t i = first; i < last; ++i) {
          const int64_t head = kv_head * group + i / o.rows;
          const int64_t row = i % o.rows;
          const T* const from = static_cast<const T*>(o.data) + ((batch * o.rows + row) * o.heads + head) * o.dim;
          for (int64_t d = 0; d < o.dim; ++d) seen[d] = to_float(from[d]);
          query.attend<T>(sequence, batch, checked.shard.position_of(row), head);
          query.judge(seen.data(), lse[(batch * o.heads + head) * o.rows + row], tally);
        }
        const std::lock_guard lock(mutex);
        total.add(tally);
      });
    }
  }
  return total;
}

class CpuAttentionChecker : public AttentionChecker {
 public:
  void fill(const HeadTensor& tensor, AttentionTensor which, const AttentionValues& values, const Shard& shard,
            int64_t first_batch) override {
    with_host_type(tensor.dtype, [&]<class T>() {
      in_parallel(tensor.batch * tensor.rows, tensor.heads * tensor.dim, [&](int64_t first, int64_t last) {
        T* to = static_cast<T*>(tensor.data) + first * tensor.heads * tensor.dim;
        for (int64_t row = first; row < last; ++row) {
          const int64_t batch = first_batch + row / tensor.rows;
          const int64_t position = shard.position_of(row % tensor.rows);
          for (int64_t head = 0; head < tensor.heads; ++head) {
            for (int64_t d = 0; d < tensor.dim; ++d) {
              *to++ = from_float<T>(attention_value(values, which, batch, position, head, d));
            }
          }
        }
      });
    });
  }

  AttentionTally check(const CheckedAttention& checked, const HeadTensor& o, const float* lse) override {
    AttentionTally tally;
    with_host_type(o.dtype, [&]<class T>() { tally = check_typed<T>(checked, o, lse); });
    return tally;
  }

  double bytes(const AttentionSize& size, int64_t, DType) const override {
    return 2.0 * sizeof(float) * static_cast<double>(size.seq) * static_cast<double>(size.dim);
  }
};

}  // namespace

std::unique_ptr<AttentionChecker> make_cpu_attention_checker() { return std::make_unique<CpuAttentionChecker>(); }

}  // namespace mk::tools
