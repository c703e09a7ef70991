// SPDX-License-Identifier: MIT
// tests/attention/attention_errors.cc — see attention_errors.h.
#include "tests/attention/attention_errors.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "tools/host_loops.h"

namespace mk::test {
namespace {

using Whole = AttentionBackwardData::Whole;

// [batch, positions, heads, dim] of the world.
struct Everything {
  std::vector<double> o, dq, dk, dv;
};

double dot(const float* a, const float* b, int64_t dim) {
  double sum = 0;
  for (int64_t d = 0; d < dim; ++d) sum += static_cast<double>(a[d]) * b[d];
  return sum;
}

// One query of one head, step by step; gradients of keys are added up.
template <class Round>
void add_query(const AttentionCase& at, const AttentionBackwardData& data, int64_t batch, int64_t position,
               int64_t head, const Round& round, Everything& all) {
  const Whole& keys = data.all_keys();
  const Whole& values = data.all_values();
  const int64_t dim = at.shape.dim;
  const int64_t kv_head = head / (at.shape.heads / at.shape.kv_heads);
  const int64_t own = data.all_queries().offset(batch, position, head);
  const float* const q = data.all_queries().row(batch, position, head);
  const float* const g = data.all_output_gradients().row(batch, position, head);
  std::vector<int64_t> seen;
  std::vector<double> scores, weights, products;
  for (int64_t key = 0; key < at.seq(); ++key) {
    if (!sees(at.form, at.seq(), position, key)) continue;
    seen.push_back(key);
    scores.push_back(round(round(dot(q, keys.row(batch, key, kv_head), dim)) * data.scale()));
    products.push_back(round(dot(g, values.row(batch, key, kv_head), dim)));
  }
  const double top = *std::ranges::max_element(scores);
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - top);
  for (const double score : scores) weights.push_back(round(std::exp(score - top) / sum));
  double delta = 0;
  for (size_t i = 0; i < seen.size(); ++i) delta += weights[i] * products[i];
  for (size_t i = 0; i < seen.size(); ++i) {
    const double ds = round(weights[i] * (products[i] - delta));
    const int64_t of_key = keys.offset(batch, seen[i], kv_head);
    for (int64_t d = 0; d < dim; ++d) {
      all.o[own + d] += weights[i] * values.elements[of_key + d];
      all.dq[own + d] += ds * keys.elements[of_key + d] * data.scale();
      all.dk[of_key + d] += ds * q[d] * data.scale();
      all.dv[of_key + d] += weights[i] * g[d];
    }
  }
}

template <class Round>
Everything by_steps(const AttentionCase& at, const AttentionBackwardData& data, const Round& round) {
  const size_t queries = data.all_queries().elements.size();
  const size_t keys = data.all_keys().elements.size();
  Everything all{std::vector<double>(queries), std::vector<double>(queries), std::vector<double>(keys),
                 std::vector<double>(keys)};
  for (int64_t batch = 0; batch < at.shape.batch; ++batch) {
    for (int64_t head = 0; head < at.shape.heads; ++head) {
      for (int64_t position = 0; position < at.seq(); ++position) {
        add_query(at, data, batch, position, head, round, all);
      }
    }
  }
  for (std::vector<double>* result : {&all.o, &all.dq, &all.dk, &all.dv}) {
    std::ranges::transform(*result, result->begin(), round);
  }
  return all;
}

double greatest_error(const std::vector<double>& seen, const std::vector<double>& exact) {
  double greatest = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    const double error = std::fabs(seen[i] - exact[i]);
    if (!(error <= greatest)) greatest = error;  // NaN stays
  }
  return greatest;
}

// Puts a rank's rows where they are in the world.
void place(const AttentionCase& at, int rank, const HeadValues& values, std::vector<double>& whole) {
  const std::vector<int64_t> positions = positions_of(at, rank);
  const int64_t of_row = values.heads * values.dim;
  tools::with_host_type(values.dtype, [&]<class T>() {
    const T* from = reinterpret_cast<const T*>(values.bytes.data());
    for (int64_t batch = 0; batch < values.batch; ++batch) {
      for (const int64_t position : positions) {
        double* const to = &whole[(batch * at.seq() + position) * of_row];
        for (int64_t i = 0; i < of_row; ++i) to[i] = to_float(*from++);
      }
    }
  });
}

}  // namespace

testing::AssertionResult errors_are_at_most_twice_those_of_steps(const AttentionCase& at,
                                                                 const AttentionBackwardData& data,
                                                                 const std::vector<AttentionResults>& ranks) {
  const Everything exact = by_steps(at, data, [](double value) { return value; });
  Everything steps;
  tools::with_host_type(at.shape.dtype, [&]<class T>() {
    steps = by_steps(at, data, [](double value) { return double{to_float(from_float<T>(static_cast<float>(value)))}; });
  });
  struct Compared {
    const char* name;
    HeadValues AttentionResults::*of_rank;
    std::vector<double> Everything::*of_world;
  };
  constexpr Compared kAll[] = {{"o", &AttentionResults::o, &Everything::o},
                               {"dq", &AttentionResults::dq, &Everything::dq},
                               {"dk", &AttentionResults::dk, &Everything::dk},
                               {"dv", &AttentionResults::dv, &Everything::dv}};
  auto result = testing::AssertionSuccess();
  for (const Compared& compared : kAll) {
    std::vector<double> seen(exact.*compared.of_world);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      place(at, static_cast<int>(rank), ranks[rank].*compared.of_rank, seen);
    }
    const double own = greatest_error(seen, exact.*compared.of_world);
    const double theirs = greatest_error(steps.*compared.of_world, exact.*compared.of_world);
    if (!(own <= 2 * theirs)) {
      return testing::AssertionFailure() << compared.name << " is off by up to " << own << ", step by step " << theirs;
    }
    result << compared.name << " " << own << " beside " << theirs << "; ";
  }
  return result;
}

}  // namespace mk::test
