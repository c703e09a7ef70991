// SPDX-License-Identifier: MIT
// tools/attention_backward_math_cpu.cc — the steps of a reference of attention's gradients, on all threads of this
// machine.
#include <cmath>
#include <vector>

#include "attention_backward_math.h"
#include "host_loops.h"

namespace mk::tools {
namespace {

template <class T>
const T* row_of(const Tensor& tensor, int64_t row) {
  return static_cast<const T*>(tensor.data) + row * tensor.cols;
}

// [dim, rows]: the loop over rows is the inner one.
template <class T>
std::vector<float> columns_of(const Tensor& tensor) {
  std::vector<float> columns(tensor.rows * tensor.cols);
  for (int64_t row = 0; row < tensor.rows; ++row) {
    for (int64_t d = 0; d < tensor.cols; ++d) columns[d * tensor.rows + row] = to_float(row_of<T>(tensor, row)[d]);
  }
  return columns;
}

// Products of one row with columns `first` to `end`.
template <class T>
void multiply_row(const T* row, int64_t dim, const std::vector<float>& columns, int64_t rows, int64_t first,
                  int64_t end, std::vector<double>& products) {
  products.assign(rows, 0.0);
  for (int64_t d = 0; d < dim; ++d) {
    const double factor = to_float(row[d]);
    if (factor == 0) continue;
    const float* const column = columns.data() + d * rows;
    for (int64_t i = first; i < end; ++i) products[i] += factor * static_cast<double>(column[i]);
  }
}

template <class T>
void pair_typed(const PairStep& step, const CheckedAttention& checked, const BackwardRule& rule) {
  const AttentionValues& values = checked.values;
  const std::vector<float> keys = columns_of<T>(step.keys.k);
  const std::vector<float> own_values = columns_of<T>(step.keys.v);
  const int64_t num_keys = step.keys.at.count;
  in_parallel(step.queries.at.count, 2 * num_keys * values.dim, [&](int64_t first, int64_t last) {
    std::vector<double> scores, products;
    for (int64_t row = first; row < last; ++row) {
      const int64_t position = step.queries.at.position_of(row);
      const KeyRange seen = checked.seen_keys(position);
      multiply_row(row_of<T>(step.queries.q, row), values.dim, keys, num_keys, 0, num_keys, scores);
      multiply_row(row_of<T>(step.queries.dout, row), values.dim, own_values, num_keys, 0, num_keys, products);
      for (int64_t i = 0; i < num_keys; ++i) {
        const int64_t key = step.keys.at.position_of(i);
        PairFactors factors;
        if (key >= seen.first && key < seen.end) {
          factors = pair_factors(rule, step.queries.notes[row], scores[i] * rule.scale, products[i],
                                 terms_of_sum(checked, step.over, position, key));
        }
        if (step.weights != nullptr) step.weights[row * num_keys + i] = factors.weight;
        step.gradients[row * num_keys + i] = factors.gradient;
      }
    }
  });
}

template <class T>
void log_sums_typed(const Tensor& q, const Tensor& k, const CheckedAttention& checked, double sink, float* lse) {
  const AttentionValues& values = checked.values;
  const std::vector<float> keys = columns_of<T>(k);
  in_parallel(values.seq, values.seq * values.dim, [&](int64_t first, int64_t last) {
    std::vector<double> scores;
    for (int64_t position = first; position < last; ++position) {
      const KeyRange seen = checked.seen_keys(position);
      multiply_row(row_of<T>(q, position), values.dim, keys, values.seq, seen.first, seen.end, scores);
      double maximum = sink;
      for (int64_t i = seen.first; i < seen.end; ++i) maximum = std::fmax(maximum, scores[i] * checked.scale);
      double sum = std::exp(sink - maximum);
      for (int64_t i = seen.first; i < seen.end; ++i) sum += std::exp(scores[i] * checked.scale - maximum);
      lse[position] = backward_lse(values.kind, maximum, sum);
    }
  });
}

template <class T>
QuerySums sums_of(const T* q, const T* o, const T* dout, int64_t dim) {
  QuerySums sums;
  for (int64_t d = 0; d < dim; ++d) {
    const double gradient = to_float(dout[d]);
    const double part = gradient * to_float(o[d]);
    sums.queries += std::fabs(to_float(q[d]));
    sums.gradients += std::fabs(gradient);
    sums.delta += part;
    sums.deltas += std::fabs(part);
  }
  return sums;
}

class CpuAttentionBackwardMath : public AttentionBackwardMath {
 public:
  void fill(const Tensor& rows, AttentionTensor which, const AttentionValues& values, const Shard& shard, int64_t batch,
            int64_t head) override {
    with_host_type(rows.dtype, [&]<class T>() {
      in_parallel(rows.rows, rows.cols, [&](int64_t first, int64_t last) {
        T* to = static_cast<T*>(rows.data) + first * rows.cols;
        for (int64_t row = first; row < last; ++row) {
          for (int64_t d = 0; d < rows.cols; ++d) {
            *to++ = from_float<T>(attention_value(values, which, batch, shard.position_of(row), head, d));
          }
        }
      });
    });
  }

  void log_sums(const Tensor& q, const Tensor& k, const CheckedAttention& checked, int64_t head, float* lse) override {
    const double sink = backward_sink(checked, head);
    with_host_type(q.dtype, [&]<class T>() { log_sums_typed<T>(q, k, checked, sink, lse); });
  }

  void note(const QueryRows& queries, const Tensor& o, const float* lse, const BackwardRule& rule,
            QueryNotes* notes) override {
    with_host_type(o.dtype, [&]<class T>() {
      for (int64_t row = 0; row < queries.at.count; ++row) {
        const QuerySums sums =
            sums_of(row_of<T>(queries.q, row), row_of<T>(o, row), row_of<T>(queries.dout, row), o.cols);
        notes[row] = query_notes(rule, sums, lse[queries.at.position_of(row)]);
      }
    });
  }

  void pair(const PairStep& step, const CheckedAttention& checked, const BackwardRule& rule) override {
    with_host_type(step.keys.k.dtype, [&]<class T>() { pair_typed<T>(step, checked, rule); });
  }

  Tally judge(const Tensor& out, const SlotSum* sums, const BackwardRule& rule, double unit) override {
    Tally tally;
    with_host_type(out.dtype, [&]<class T>() {
      const T* const data = static_cast<const T*>(out.data);
      for (int64_t i = 0; i < out.rows * out.cols; ++i) {
        tally.judge(to_float(data[i]), sums[i].ref, backward_tolerance(rule, sums[i].ref, sums[i].error, unit));
      }
    });
    return tally;
  }
};

}  // namespace

std::unique_ptr<AttentionBackwardMath> make_cpu_attention_backward_math() {
  return std::make_unique<CpuAttentionBackwardMath>();
}

}  // namespace mk::tools
